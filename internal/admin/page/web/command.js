// Commands that a person may run next, each with a button that copies it.

import { make, setText } from "./dom.js";

const subcommands = "doctor|status|events|ledger check|host plan|host apply|host confirm|vf list|vf top|pool list";
const patterns = [
  /"((?:culvert|kubectl|ip|systemctl|virsh|journalctl) [^"]+)"/g,
  new RegExp(`(?<!")\\b((?:kubectl )?culvert (?:${subcommands})\\b(?: -o wide)?)`, "g"),
  /(?:^|[:?] |\bsee |\brun )((?:kubectl (?:get|logs|describe)|systemctl status|journalctl|ip link) [^;"()]+)$/gi,
];

// findCommands returns the commands that a sentence names.
export function findCommands(sentence) {
  const found = patterns.flatMap((p) => [...(sentence ?? "").matchAll(p)].map((match) => match[1].trim()));
  return [...new Set(found)];
}

// quote makes a word one argument for a shell.
export const quote = (word) => (/^[\w.:\/@%+=#-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// A command that has a character of control, or that a shell would read as more than one, has no button.
const isPlain = (command) => /^[ -~]*$/.test(command) && !/[;&|`$<>\\(){}]/.test(command);

let copied = { command: "", word: "" }; // the result of the last copy, for a moment

// drawCommand draws a command.
export function drawCommand(command) {
  return make("span", { class: "command" }, make("code", null, command),
    isPlain(command) && make("button", { type: "button", "data-copy": command, "aria-label": `Copy ${command}` }, copied.command === command ? copied.word : "Copy"));
}

// copyCommand copies a command, and says so on its button for a moment.
export async function copyCommand(command, draw) {
  try {
    await navigator.clipboard.writeText(command);
    copied = { command, word: "Copied" };
  } catch {
    copied = { command, word: "Select it" };
  }
  setText("news", `${copied.word}: ${command}`);
  draw();
  setTimeout(() => {
    copied = { command: "", word: "" };
    draw();
  }, 1500);
}

// commandsOf returns the commands about a VF. isCluster says that the page shows a cluster.
export function commandsOf(vf, node, isCluster) {
  const program = isCluster ? "kubectl culvert" : "culvert";
  const at = isCluster ? ` --node ${quote(node)}` : "";
  const out = [];
  if (vf.owner?.kind === "pod" && vf.owner.name?.includes("/")) {
    const [namespace, name] = vf.owner.name.split("/");
    out.push(`${program} why pod/${quote(name)} -n ${quote(namespace)}`);
  }
  if (vf.owner?.kind === "vm" && !isCluster && vf.owner.name) {
    out.push(`culvert why ${quote(`guest/${vf.owner.name}`)}`, `culvert vm show ${quote(vf.owner.name)}`);
  }
  out.push(`${program} vf show ${quote(vf.name)}${at}`);
  if (!isCluster) out.push(`culvert vf history ${quote(vf.name)}`, `culvert vf top --pf ${quote(vf.pf)}`);
  return out;
}
