/** Returns the address; for IPv6 the first 64 bits, because one network owns all addresses below them. */
export function networkOf(address: string): string {
  const isMapped = /^::ffff:\d+\./i.test(address);
  if (!address.includes(":") || isMapped) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === "" ? 0 : tail.split(":").length);
  return [...groups, ...Array<string>(missing).fill("0")].slice(0, 4).join(":");
}
