// Puts values into words.

const units = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];

// describeBits describes a rate of bits: 3.2 Gb/s.
export function describeBits(bits) {
  let unit = 0;
  while (bits >= 999.5 && unit < units.length - 1) {
    bits /= 1000;
    unit++;
  }
  return `${bits >= 99.5 || unit === 0 ? Math.round(bits) : bits.toFixed(1)} ${units[unit]}`;
}

// describeMegabits describes a rate of Mb/s of the kernel, where 0 is no limit.
export const describeLimit = (mbps) => (mbps ? describeBits(mbps * 1e6) : "no limit");

// describeCount puts a number and a noun together: 1 VF, 2 VFs.
export const describeCount = (n, noun) => `${describeNumber(n)} ${noun}${n === 1 ? "" : "s"}`;

// describeNumber groups the digits of a number.
export const describeNumber = (n) => Math.round(n).toLocaleString("en-GB").replaceAll(",", "\u202f");

const isSet = (time) => time && !time.startsWith("0001-");

// describeAge describes the time since a moment: 12 s, 5 min, 3 h, 8 d.
export function describeAge(time, now = Date.now()) {
  if (!isSet(time)) return "";
  return describeSeconds(Math.max(0, (now - Date.parse(time)) / 1000));
}

export function describeSeconds(s) {
  if (s < 90) return `${Math.round(s)} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 36 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

// describeTime describes a moment: its time today, else with its day.
export function describeTime(time) {
  if (!isSet(time)) return "";
  const t = new Date(time);
  const clock = t.toLocaleTimeString("en-GB");
  return t.toDateString() === new Date().toDateString() ? clock : `${t.toLocaleDateString("sv-SE")} ${clock}`;
}

const kinds = { vm: "guest" };

// describeOwner describes the owner of a VF: pod default/a, guest db1.
export function describeOwner(owner) {
  if (!owner?.kind) return "";
  return `${kinds[owner.kind] ?? owner.kind} ${owner.name || owner.uid.slice(0, 12)}`;
}

// describeVLAN describes a VLAN as ip(8) does.
export function describeVLAN(vlan) {
  if (!vlan || (!vlan.id && !vlan.qos)) return "none";
  return `${vlan.id}${vlan.qos ? ` qos ${vlan.qos}` : ""}${vlan.proto === "802.1ad" ? " 802.1ad" : ""}`;
}
