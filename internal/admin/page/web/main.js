// The page: what it shows follows from the place (the URL's hash) and from the server's events.

import { copyCommand } from "./command.js";
import { clean, make, setText, show } from "./dom.js";
import { drawFound, drawPlans } from "./find.js";
import { sumBits } from "./nic.js";
import { drawNode } from "./node.js";
import { moveRow, noteScroll, resetList } from "./nodes.js";
import { drawOverview } from "./overview.js";
import { goTo, linkTo, readPlace, replacePlace } from "./place.js";
import { moveFocus, setStop } from "./roving.js";
import { Stream } from "./stream.js";
import { startTheme } from "./theme.js";
import { drawPanel } from "./vf.js";
import { describeSeconds } from "./words.js";

const find = (id) => document.getElementById(id);
const kept = 60; // samples of each VF's rate

const picture = { overview: null, node: null, flows: new Map(), samples: new Map(), failure: "", seen: 0 };
const asked = { key: {}, events: null, past: null, found: null, plans: null }; // answers to requests
let place = readPlace();
const stream = new Stream(receive, drawSoon);

// nodeOf returns the node that the page shows; a host has only one.
function nodeOf() {
  if (place.view === "find" || place.view === "plan") return "";
  return place.node || (picture.overview && !picture.overview.cluster ? picture.overview.nodes[0]?.name : "") || "";
}

const mergers = {
  overview: (data) => ({ ...data, nodes: data.nodes ?? [], problems: data.problems ?? [] }),
  summary: (data) => ({ ...data, nodes: picture.overview?.nodes ?? [], problems: data.problems ?? [] }),
  rows: (rows) => {
    const changed = new Map(rows.map((row) => [row.name, row]));
    return { ...picture.overview, nodes: picture.overview.nodes.map((node) => changed.get(node.name) ?? node) };
  },
};

function receive(name, data) {
  if (name === "failure") picture.failure = data.error;
  else picture.seen = Date.now();
  if (mergers[name]) {
    const before = countProblems();
    picture.overview = mergers[name](data);
    if (name === "overview") picture.failure = "";
    announce(before);
    stream.follow(nodeOf());
  }
  if (name === "node") picture.node = data;
  if (name === "rates") takeRates(data ?? []);
  if (name !== "rates" && name !== "alive") askAgain();
  drawSoon();
}

const countProblems = () => picture.overview && picture.overview.problems.length + (picture.overview.moreProblems ?? 0);

// announce has a screen reader say that the number of problems changed.
function announce(before) {
  const now = countProblems();
  if (before !== null && before !== now) setText("news", `${now} problems, ${before} before`);
}

function takeRates(flows) {
  picture.flows = new Map(flows.map((flow) => [flow.name, flow]));
  for (const flow of flows) {
    const samples = picture.samples.get(flow.name) ?? [];
    samples.push(sumBits(flow));
    picture.samples.set(flow.name, samples.slice(-kept));
  }
}

// ask requests data once for each key. It draws when the answer is there, unless the reader went on.
async function ask(name, key, path) {
  if (asked.key[name] === key) return;
  const isSame = asked.key[name]?.split("\n")[0] === key.split("\n")[0];
  asked.key[name] = key;
  if (!isSame) asked[name] = null;
  let answer;
  try {
    const response = await fetch(path);
    answer = await response.json();
  } catch (error) {
    answer = { error: `no answer: ${error.message}` };
  }
  if (asked.key[name] !== key) return;
  asked[name] = answer;
  drawSoon();
}

let round = 0; // grows when events may have changed

const askAgain = () => { round = Math.floor(Date.now() / 5000); };

// askData requests what the place needs beside the stream.
function askData() {
  const node = nodeOf();
  if (place.view === "find") return ask("found", place.q ?? "", `data/find?q=${encodeURIComponent(place.q ?? "")}`);
  if (place.view === "plan") return ask("plans", "plans", "data/plans");
  ask("events", `${node}\n${round}`, `data/events?limit=50&node=${encodeURIComponent(node)}`);
  if (place.vf) ask("past", `${node} ${place.vf}\n${round}`, `data/history?node=${encodeURIComponent(node)}&vf=${encodeURIComponent(place.vf)}`);
}

let isDue = false;

// drawSoon draws the page before the next frame.
function drawSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(draw);
}

function draw() {
  isDue = false;
  drawHeader();
  if (!picture.overview) {
    show(find("main"), make("p", { class: "soft" }, picture.failure ? "There is no picture yet." : "Loading …"));
    return;
  }
  askData();
  show(find("main"), drawMain());
  drawAside();
  if (wantsResult && Array.isArray(asked.found) && asked.key.found === place.q) {
    wantsResult = false;
    document.querySelector(".found")?.focus();
  }
}

function drawMain() {
  const { overview } = picture;
  const events = Array.isArray(asked.events) ? asked.events : null;
  if (place.view === "find") return drawFound(place.q ?? "", asked.found, overview.cluster);
  if (place.view === "plan") return drawPlans(asked.plans);
  const name = nodeOf();
  if (!name) return drawOverview(overview, place, events);
  if (picture.node?.node !== name) {
    const isKnown = overview.nodes.some((node) => node.name === name);
    return [make("h1", null, `Node ${name}`), make("p", { class: "soft" }, isKnown ? "Loading …" : "There is no node of this name."), make("a", { href: linkTo({}) }, "Show all")];
  }
  return drawNode(picture.node, { overview, flows: picture.flows, place, events });
}

function drawHeader() {
  const { overview, failure } = picture;
  const isOld = stream.state === "lost" || failure !== "";
  setText("name", overview?.name ?? "");
  const words = { connecting: "Connecting …", live: "● Live", lost: "▲ Connection lost", asleep: "Paused" };
  const state = failure && stream.state === "live" ? "▲ Old picture" : words[stream.state];
  setText("state", state);
  find("connection").className = isOld ? "bad" : "";
  setText("age", isOld && picture.seen ? `picture is ${describeSeconds((Date.now() - picture.seen) / 1000)} old` : "");
  find("failure").hidden = !failure;
  setText("failure", failure);
  document.title = clean(`${place.vf || nodeOf() || "Overview"} · ${overview?.name ?? "Culvert"}`);
  if (overview?.plans && !find("plans")) find("name").after(make("a", { id: "plans", class: "button", href: linkTo({ view: "plan" }) }, "Plan"));
}

let shownVF = "";

function drawAside() {
  const node = nodeOf();
  const wanted = place.vf && node ? place.vf : "";
  const vf = wanted && picture.node?.node === node && picture.node.vfs?.find((v) => v.name === wanted);
  const panel = find("panel");
  panel.hidden = !wanted;
  if (vf) {
    const content = { node, place, past: asked.past, flow: picture.flows.get(vf.name), samples: picture.samples.get(vf.name), isCluster: picture.overview.cluster };
    show(panel, drawPanel(vf, content));
  } else if (wanted) {
    show(panel, make("div", { class: "title" }, make("h2", { id: "panel-title", tabindex: -1 }, `VF ${wanted}`), make("a", { class: "button", href: linkTo({ ...place, vf: "" }) }, "Close")),
      make("p", { class: "soft" }, picture.node?.node === node ? "The node has no such VF now." : "Loading …"));
  }
  moveFocusForPanel(wanted);
}

// moveFocusForPanel puts the focus into a panel that opened, and back to its slot when it closes.
function moveFocusForPanel(wanted) {
  if (wanted === shownVF) return;
  if (wanted) {
    find("panel").scrollTop = 0;
    document.querySelector(`#main [data-vf="${CSS.escape(wanted)}"]`)?.scrollIntoView({ block: "nearest" });
  }
  const target = wanted ? find("panel-title") : document.querySelector(`#main [data-vf="${CSS.escape(shownVF)}"]`);
  shownVF = wanted;
  target?.focus({ preventScroll: wanted !== "" });
}

function arrive() {
  const before = place;
  place = readPlace();
  if (picture.overview) stream.follow(nodeOf());
  if (before.node !== place.node) {
    picture.flows = new Map();
    picture.samples = new Map();
  }
  if ((before.node !== place.node || before.view !== place.view) && !place.vf) scrollTo(0, 0);
  if (place.only !== before.only || place.word !== before.word || place.sort !== before.sort) resetList();
  if (place.view === "find" && document.activeElement !== find("words")) find("words").value = place.q ?? "";
  drawSoon();
}

function click(event) {
  const button = event.target.closest("button, a");
  if (!button) return;
  const { copy, only, sort } = button.dataset;
  if (copy) copyCommand(copy, drawSoon);
  if (only) replacePlace({ ...place, only: place.only === only ? "" : only });
  if (sort) replacePlace({ ...place, sort: sort === "name" ? "" : sort });
  if (button.id === "skip") {
    event.preventDefault();
    find("main").focus();
  }
}

function press(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "/" && !target.closest("input")) {
    event.preventDefault();
    find("words").select();
  }
  if (key === "Escape" && target.id === "words") target.blur();
  else if (key === "Escape" && place.vf) goTo({ ...place, vf: "" });
  const isMoved = target.dataset.index ? moveRow(target, key, picture.overview.nodes, place) : target.dataset.group && moveFocus(target, key);
  if (isMoved) event.preventDefault();
}

let typing = 0;
let wantsResult = false; // the reader asked for the first result of a search

function type(event) {
  if (event.target.id === "filter") replacePlace({ ...place, word: event.target.value });
  if (event.target.id !== "words") return;
  clearTimeout(typing);
  typing = setTimeout(() => search(false), 250);
}

// search shows what the words in the header find, and goes to the first result if the reader asked.
function search(isDone) {
  clearTimeout(typing);
  const q = find("words").value.trim();
  if (!q) return;
  const to = { view: "find", q };
  if (place.view === "find") replacePlace(to);
  else goTo(to);
  wantsResult = isDone;
  drawSoon();
}

addEventListener("hashchange", arrive);
document.addEventListener("click", click);
document.addEventListener("keydown", press);
document.addEventListener("input", type);
document.addEventListener("focusin", (event) => setStop(event.target));
document.addEventListener("scroll", (event) => {
  if (event.target.id === "rows") noteScroll(event.target, picture.overview.nodes, place);
}, true);
document.addEventListener("toggle", drawSoon, true);
addEventListener("resize", drawSoon);
setInterval(drawHeader, 1000); // the age of an old picture
find("find").addEventListener("submit", (event) => {
  event.preventDefault();
  search(true);
});
startTheme(find("theme"));
stream.follow("");
drawSoon();
