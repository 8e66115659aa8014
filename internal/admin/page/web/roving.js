// One stop of the Tab key for a group of links. The arrow keys move inside the group.

const stops = new Map(); // group -> the stop's name

// stopOf returns which of the names of a group the Tab key stops at.
export function stopOf(group, names) {
  const last = stops.get(group);
  return names.includes(last) ? last : names[0];
}

// setStop makes an element the stop of its group.
export function setStop(element) {
  const { group, stop } = element.dataset;
  if (!group) return;
  stops.set(group, stop);
  for (const other of membersOf(group)) other.tabIndex = other === element ? 0 : -1;
}

const membersOf = (group) => [...document.querySelectorAll(`[data-group="${CSS.escape(group)}"]`)];

// moveFocus moves the focus inside a group of a grid as an arrow key asks, and returns whether it did.
export function moveFocus(element, key) {
  const all = membersOf(element.dataset.group);
  const columns = all.filter((other) => other.offsetTop === all[0].offsetTop && other.offsetParent === all[0].offsetParent).length || 1;
  const at = all.indexOf(element);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: all.length - 1 }[key];
  if (to === undefined || !all[to]) return false;
  all[to].focus();
  return true;
}
