// The panel of one VF: its owner, settings, traffic, guard, past, and what to run about it.

import { make } from "./dom.js";
import { commandsOf, drawCommand } from "./command.js";
import { drawEvents, drawSpans } from "./history.js";
import { drawShape, holderOf, lookOf, phaseOf } from "./phase.js";
import { linkTo } from "./place.js";
import { drawFacts, drawSection, drawTable } from "./table.js";
import { describeAge, describeBits, describeLimit, describeNumber, describeTime, describeVLAN } from "./words.js";

// drawPanel draws a VF of a node. past is its api.History, null until it is there; samples are its last
// rates, oldest first.
export function drawPanel(vf, { node, place, past, flow, samples, isCluster }) {
  return [
    make("div", { class: "title" },
      make("h2", { id: "panel-title", tabindex: -1 }, drawShape(lookOf(vf)), ` VF ${vf.name}`),
      make("a", { class: "button", id: "close", href: linkTo({ ...place, vf: "" }), title: "Escape" }, "Close")),
    make("p", { class: `state is-${lookOf(vf)}` }, phaseOf(vf), vf.since && describeAge(vf.since) && ` for ${describeAge(vf.since)}`,
      vf.reason && `: ${vf.reason}`, vf.nextRetry && `; culvertd tries again at ${describeTime(vf.nextRetry)} (attempt ${(vf.attempts ?? 0) + 1})`),
    drawIdentity(vf, node, past, isCluster),
    vf.warnings?.length > 0 && drawSection("Warnings", make("ul", null, vf.warnings.map((w) => make("li", { class: "warn" }, w)))),
    vf.differences?.length > 0 && drawSection("Differences", drawTable("Differences from what is wanted", [
      ["Setting", (d) => d.attribute], ["Wanted", (d) => d.want || "none"], ["Actual", (d) => make("b", { class: "bad" }, d.have || "none")],
    ], vf.differences), vf.moreDifferences > 0 && make("p", { class: "soft" }, `and ${vf.moreDifferences} more`)),
    drawTraffic(flow, samples, vf.traffic),
    drawSettings(vf),
    drawRates(vf),
    vf.guard && drawSection("Guard", drawFacts([["Mode", [vf.guard.mode, ...(vf.guard.allow ?? []).map((k) => `+${k}`)].join(" ")], ["Holds", vf.guard.degree], ["Why", vf.guard.reason]])),
    drawPast(past),
    drawSection("Run", commandsOf(vf, node, isCluster).map((command) => make("p", null, drawCommand(command)))),
  ];
}

// A cluster's objects do not have the driver.
function drawIdentity(vf, node, past, isCluster) {
  const span = past?.spans?.at(-1);
  const isPod = vf.owner?.kind === "pod";
  return make("section", { class: "card", "data-key": "identity" }, drawFacts([
    ["Owner", holderOf(vf) && make("b", { class: "long", id: "owner" }, holderOf(vf))],
    ["Pod UID", isPod && !span?.to && span?.podUID], [isPod ? "Sandbox" : "UID", vf.owner?.uid],
    ["Network", vf.network], ["Interface", vf.owner?.interface], ["MAC", vf.mac], ["Addresses", vf.addresses?.join(", ")],
    ["Bond", vf.bond && `${vf.owner?.interface ?? ""} (${vf.bond.mode}, ${vf.bond.links} links)`],
    ["Node", node], ["PF", vf.pf], ["PCI", vf.pci], ["Pool", vf.pool], ["Driver", vf.driver || (isCluster ? "" : "none")], ["Netdevice", vf.netdevice],
    ["NUMA node", vf.numa >= 0 ? vf.numa : null], ["IOMMU group", vf.iommuGroup >= 0 ? vf.iommuGroup : null], ["RDMA", vf.rdma],
    ["Open by", vf.openBy?.map((p) => `${p.guest ? `guest ${p.guest}, ` : ""}${p.name} (${p.pid})`).join(", ")],
  ]));
}

function drawTraffic(flow, samples, traffic) {
  if (!flow?.rx && !flow?.tx && !traffic) return null;
  const lost = (way) => way && (way.dropped || way.errors) ? `, ${describeNumber(way.dropped)} dropped and ${describeNumber(way.errors)} errors a second` : "";
  const rate = (way) => way && `${describeBits(way.bits)}, ${describeNumber(way.packets)} packets/s${lost(way)}`;
  const total = (bytes, packets) => `${describeNumber(bytes)} bytes, ${describeNumber(packets)} packets`;
  return drawSection("Traffic", drawSparkline(samples), drawFacts([
    ["Receives", rate(flow?.rx)], ["Sends", rate(flow?.tx)],
    ["Received", traffic && total(traffic.rxBytes, traffic.rxPackets)], ["Sent", traffic && total(traffic.txBytes, traffic.txPackets)],
    ["Lost", traffic && traffic.rxDropped + traffic.txDropped + traffic.rxErrors + traffic.txErrors > 0 &&
      `${describeNumber(traffic.rxDropped + traffic.txDropped)} dropped, ${describeNumber(traffic.rxErrors + traffic.txErrors)} errors`],
  ]));
}

// drawSparkline draws the last rates as a line.
function drawSparkline(samples) {
  if (!samples || samples.length < 2) return null;
  const most = Math.max(...samples, 1);
  const points = samples.map((bits, i) => `${(400 * i) / (samples.length - 1)},${38 - (36 * bits) / most}`).join(" ");
  return make("svg", { class: "spark", viewBox: "0 0 400 40", preserveAspectRatio: "none", role: "img", "aria-label": `Traffic of the last ${samples.length} looks, at most ${describeBits(most)}` },
    make("polyline", { points, fill: "none", "vector-effect": "non-scaling-stroke" }));
}

// Each setting with its wanted, actual and clean value. Undefined is not known, or left alone.
function listSettings(vf) {
  const { wanted: w = {}, settings: s = {}, baseline: b } = vf;
  const clean = b?.admin ?? {};
  const yes = (v) => (v === undefined ? undefined : v ? "yes" : "no");
  const limit = (v) => (v === undefined ? undefined : describeLimit(v));
  const vlan = (v) => (v === undefined ? undefined : describeVLAN(v));
  return [
    ["MAC", w.mac, s.mac, clean.mac], ["VLAN", vlan(w.vlan), vlan(s.vlan), vlan(clean.vlan)],
    ["spoofchk", yes(w.spoofchk), s.spoofchk, clean.spoofchk], ["trust", yes(w.trust), s.trust, clean.trust],
    ["link_state", w.link_state, s.link_state, clean.link_state],
    ["min_tx_rate", limit(w.min_tx_rate), limit(s.min_tx_rate), limit(clean.min_tx_rate)],
    ["max_tx_rate", limit(w.max_tx_rate), limit(s.max_tx_rate), limit(clean.max_tx_rate)],
    ["MTU", w.mtu, vf.link?.mtu, b?.mtu || undefined], ["driver", w.driver || undefined, vf.driver, b?.driver],
    ...(w.addresses ? [["addresses", w.addresses.map((a) => a.prefix).join(", "), vf.addresses?.join(", ")]] : []),
  ];
}

function drawSettings(vf) {
  const rows = listSettings(vf).filter(([, ...values]) => values.some((v) => v !== undefined && v !== "" && v !== null));
  const differs = (name) => vf.differences?.some((d) => d.attribute.toLowerCase() === name.toLowerCase());
  const has = (v) => (v || v === 0 ? v : "–");
  return drawSection("Settings", drawTable("Settings of the VF", [
    ["Setting", ([name]) => name], ["Wanted", ([, want]) => has(want)],
    ["Actual", ([name, , have]) => (differs(name) ? make("b", { class: "bad" }, `≠ ${has(have)}`) : has(have))], ["Clean", ([, , , clean]) => has(clean)],
  ], rows));
}

function drawRates(vf) {
  return drawSection("Send rates", drawTable("Send rates as asked for, accepted and applied", [
    ["Rate", (r) => r.setting], ["Asked", (r) => (r.asked === undefined ? "–" : describeLimit(r.asked))],
    ["Accepted", (r) => describeLimit(r.accepted)], ["Applied", (r) => describeLimit(r.effective)],
  ], vf.rates), vf.lent && make("p", { class: "warn" }, `▲ ${describeLimit(vf.lent.maxTxRate)} for a measurement, until ${describeTime(vf.lent.until)}`));
}

function drawPast(past) {
  if (!past) return drawSection("History", make("p", { class: "soft" }, "Loading …"));
  return [
    past.error && drawSection("History", make("p", { class: "bad" }, past.error)),
    past.command && drawSection("History", make("p", { class: "soft" }, "A cluster's objects have no history. The node has it:"), make("p", null, drawCommand(past.command))),
    past.spans?.length > 0 && drawSection("History", drawSpans(past.spans)),
    past.events?.length > 0 && drawSection("Events", drawEvents([...past.events].reverse())),
  ];
}
