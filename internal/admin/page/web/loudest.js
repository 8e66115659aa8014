// The VFs of a node as a table, with the most traffic first.

import { make } from "./dom.js";
import { drawShape, holderOf, lookOf, phaseOf } from "./phase.js";
import { linkTo } from "./place.js";
import { drawMeter, sumBits } from "./nic.js";
import { drawTable } from "./table.js";
import { describeBits, describeNumber } from "./words.js";

// drawLoudest draws the table.
export function drawLoudest(node, flows, place) {
  const rows = (node.vfs ?? []).map((vf) => ({ vf, flow: flows.get(vf.name) })).sort((a, b) => sumBits(b.flow) - sumBits(a.flow));
  const most = Math.max(1e6, sumBits(rows[0]?.flow));
  const drops = (flow) => Math.round((flow?.rx?.dropped ?? 0) + (flow?.tx?.dropped ?? 0) + (flow?.rx?.errors ?? 0) + (flow?.tx?.errors ?? 0));
  const bits = (way) => ({ flow }) => (flow?.[way] ? describeBits(flow[way].bits) : "–");
  return make("section", { class: "card", "data-key": "loudest" }, make("h2", null, "Loudest VFs"),
    drawTable("VFs, those with the most traffic first", [
      ["VF", ({ vf }) => [drawShape(lookOf(vf)), make("a", { href: linkTo({ ...place, vf: vf.name }), "data-vf": vf.name }, vf.name)], "whole"],
      ["Owner", ({ vf }) => make("span", { class: "long" }, holderOf(vf) || phaseOf(vf))],
      ["Traffic", ({ flow }) => drawMeter(sumBits(flow), most), "meters"],
      ["Receives", bits("rx"), "number"], ["Sends", bits("tx"), "number"],
      ["Packets/s", ({ flow }) => (flow?.rx ? describeNumber(flow.rx.packets + (flow.tx?.packets ?? 0)) : "–"), "number"],
      ["Lost/s", ({ flow }) => (drops(flow) ? make("span", { class: "bad" }, describeNumber(drops(flow))) : "–"), "number"],
      ["Network", ({ vf }) => vf.network],
    ], rows, ({ vf }) => vf.name));
}
