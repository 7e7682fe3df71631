import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";

/** Of one attempt. The second one waits twice as long. */
const attemptTimeoutMs = 2_500;

/**
 * Returns the addresses of a name that a user chose, from the file of hosts and from DNS, without search domains. It does not use
 * getaddrinfo(3), which occupies one of two threads of this server for as long as a name server does not answer: names of one workspace
 * would keep the others, and the sign-in of users, from calling anything.
 * @throws Error of node:dns if the name does not resolve
 */
export async function lookUpName(name: string): Promise<string[]> {
  const known = await knownAddresses(name.toLowerCase());
  if (known.length > 0) return known;
  // A new one each time, because it reads the name servers of the system once.
  const resolver = new Resolver({ timeout: attemptTimeoutMs, tries: 2 });
  const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const found = [ipv4, ipv6].map((one) => (one.status === "fulfilled" ? one.value : []));
  const addresses = (hasIpv4() ? found : found.reverse()).flat();
  if (addresses.length > 0) return addresses;
  throw ipv4.status === "rejected" ? ipv4.reason : new Error(`${name} has no address`);
}

async function knownAddresses(name: string): Promise<string[]> {
  const lines = (await readFile("/etc/hosts", "utf8").catch(() => "")).split("\n");
  const listed = lines.flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return names.includes(name) ? [address] : [];
  });
  // RFC 6761, section 6.3.
  const isLocal = name === "localhost" || name.endsWith(".localhost");
  return listed.length === 0 && isLocal ? ["127.0.0.1", "::1"] : listed;
}

/** On a machine with IPv6 only, the addresses that it reaches come first. */
const hasIpv4 = () =>
  Object.values(networkInterfaces()).some((all) => all?.some((one) => one.family === "IPv4" && !one.internal));
