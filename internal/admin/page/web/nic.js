// Draws the NICs of a node: each card with its ports, and the VFs of a port as slots.

import { make } from "./dom.js";
import { describeVF, drawCounts, drawLegend, drawShape, holderOf, lookOf, phaseOf, describeCounts } from "./phase.js";
import { linkTo } from "./place.js";
import { stopOf } from "./roving.js";
import { describeBits, describeCount, describeOwner } from "./words.js";

// cardOf returns the PCI address of the card that a function belongs to.
const cardOf = (pci) => pci.replace(/\.[^.]*$/, "");

// drawNICs draws all NICs. flows has the traffic of VFs by their names; place is where links lead from.
export function drawNICs(node, flows, place, hasRates) {
  const cards = new Map();
  for (const pf of node.pfs ?? []) {
    const card = cardOf(pf.pci);
    if (!cards.has(card)) cards.set(card, []);
    cards.get(card).push(pf);
  }
  const loudest = Math.max(1e6, ...[...flows.values()].map(sumBits));
  return [...cards].map(([card, pfs]) => drawCard(card, pfs, node.vfs ?? [], { flows, place, hasRates, loudest }));
}

// sumBits returns what a VF receives and sends together.
export const sumBits = (flow) => (flow?.rx?.bits ?? 0) + (flow?.tx?.bits ?? 0);

function drawCard(card, pfs, vfs, look) {
  const { vendor, device, driver, numa } = pfs[0];
  const own = vfs.filter((vf) => pfs.some((pf) => isOf(vf, pf)));
  return make("section", { class: "card nic", "data-key": `nic ${card}` },
    make("div", { class: "title" },
      make("h2", null, `NIC ${card}`),
      make("p", { class: "soft" }, [driver, [vendor, device].filter(Boolean).join(":"), numa >= 0 && `NUMA node ${numa}`, describeCount(pfs.length, "port")].filter(Boolean).join(" · ")),
      drawLegend(own)),
    pfs.map((pf) => drawPort(pf, driver, own.filter((vf) => isOf(vf, pf)), look)));
}

const isOf = (vf, pf) => vf.pf === pf.name || vf.pf === pf.pci;

function drawPort(pf, driver, vfs, look) {
  const name = pf.name || pf.pci;
  const stop = stopOf(name, vfs.map((vf) => vf.name));
  return make("div", { class: "port", "data-key": name },
    make("div", { class: "about" },
      drawSocket(pf),
      make("div", null,
        make("h3", { title: pf.pci }, name),
        make("p", { class: pf.carrier ? "up" : "down" }, describeLink(pf, look.hasRates)),
        describePort(pf, driver).map((line) => make("p", { class: line.startsWith("▲") ? "warn" : "soft" }, line)),
        pf.error && make("p", { class: "bad" }, pf.error),
        make("p", { class: "fill" }, drawCounts(pf.vfs), make("span", { class: "count" }, `${pf.vfs.total} of ${describeCount(pf.totalVFs, "VF")}${pf.vfs.total ? `: ${describeCounts(pf.vfs)}` : ""}`)))),
    make("ul", { class: "slots", "aria-label": `VFs of ${name}` },
      vfs.map((vf) => make("li", { "data-key": vf.name }, drawSlot(vf, look, name, stop)))));
}

// drawSocket draws the socket of a port, with its link light.
function drawSocket(pf) {
  return make("svg", { class: `socket ${pf.carrier ? "up" : "down"}`, viewBox: "0 0 40 34", width: 40, height: 34, "aria-hidden": "true" },
    make("rect", { class: "frame", x: 1, y: 1, width: 38, height: 32, rx: 3 }),
    make("path", { class: "hole", d: "M7 27V13h6V9h14v4h6v14z" }),
    make("circle", { class: "light", cx: 6, cy: 6, r: 2.5 }));
}

function describeLink(pf, isHost) {
  if (pf.owner) return `given whole to ${describeOwner(pf.owner)}`;
  if (pf.flapping) return "▲ link comes and goes";
  if (!pf.up && isHost) return "▲ down"; // a cluster's objects have the carrier alone
  return pf.carrier ? `● link up${pf.speedMbps ? `, ${describeBits(pf.speedMbps * 1e6)}` : ""}` : "▲ no link";
}

function describePort(pf, driver) {
  const { master } = pf;
  const errors = Object.values(pf.errors ?? {}).reduce((sum, n) => sum + n, 0);
  return [
    [pf.driver !== driver && pf.driver, pf.mtu && `MTU ${pf.mtu}`, pf.segment && `segment ${pf.segment}`].filter(Boolean).join(" · "),
    master && `in ${master.name}${master.kind ? ` (${[master.kind, master.mode].filter(Boolean).join(", ")}${master.active === pf.name ? ", active" : ""})` : ""}`,
    pf.wantedVFs !== undefined && pf.wantedVFs !== pf.vfs.total && `${describeCount(pf.wantedVFs, "VF")} wanted`,
    pf.faults?.length > 0 && `▲ of late: ${pf.faults.join(", ")}`,
    errors > 0 && `▲ ${describeCount(errors, "error")} of PCIe or of queues`,
  ].filter(Boolean);
}

function drawSlot(vf, { flows, place, hasRates, loudest }, group, stop) {
  const flow = flows.get(vf.name);
  const holder = holderOf(vf);
  const isChosen = place.vf === vf.name;
  const rate = flow?.rx || flow?.tx ? sumBits(flow) : null;
  return make("a", {
    class: `slot is-${lookOf(vf)}`, href: linkTo({ ...place, vf: vf.name }), "data-group": group, "data-stop": vf.name, "data-vf": vf.name,
    tabindex: stop === vf.name ? 0 : -1, "aria-label": describeVF(vf), "aria-current": isChosen && "true", title: `${vf.name}: ${holder || phaseOf(vf)}`,
  },
  make("span", { class: "top" }, drawShape(lookOf(vf)), make("b", null, `#${vf.index}`),
    vf.differences?.length > 0 && make("span", { class: "mark", title: "differs from what is wanted" }, `≠${vf.differences.length}`),
    vf.noCarrier && make("span", { class: "mark", title: "no carrier" }, "no link"),
    vf.bond && make("span", { class: "soft" }, "bond")),
  make("span", { class: holder ? "holder" : "holder soft" }, holder ? shorten(vf) : phaseOf(vf)),
  hasRates && rate !== null && make("span", { class: "flow" }, drawMeter(rate, loudest), make("span", { class: "rate" }, rate >= 1000 ? describeBits(rate) : "idle")));
}

// drawMeter draws a rate as a part of the most.
export function drawMeter(rate, most) {
  return make("span", { class: "meter" }, rate > 0 && make("span", { style: { width: `${Math.max(1, (100 * rate) / most)}%` } }));
}

// The kind of an owner stands in the slot only where it is not a pod.
const shorten = (vf) => (vf.owner?.kind === "pod" ? vf.owner.name || vf.owner.uid : holderOf(vf));
