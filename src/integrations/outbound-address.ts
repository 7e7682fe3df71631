import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { lookUpName } from "./look-up-name.ts";

/** Failure for a user's URL that leads to an address this server must not call. It does not name the address of an internal name. */
export class PrivateAddressError extends Error {
  constructor(host: string) {
    super(
      `${host} is not a public address. An operator can allow private networks with PIERHEAD_ALLOW_PRIVATE_NETWORK=true.`,
    );
    this.name = "PrivateAddressError";
  }
}

/**
 * Resolves a host once and rejects it if any of its addresses is not public, so that a user's URL cannot reach this
 * machine, its network or a cloud's metadata service. Connect to the addresses returned here, not to the name again:
 * a second lookup may return other addresses (DNS rebinding).
 *
 * @param host As `URL.hostname` gives it: decimal, octal and hex spellings of IPv4 are canonical there, IPv6 is in brackets.
 * @throws PrivateAddressError; Error if the name does not resolve.
 */
export async function resolvePublicHost(host: string): Promise<string[]> {
  const name = bareHost(host);
  const addresses = isIP(name) ? [name] : await lookUpName(name);
  if (!addresses.every(isPublicAddress)) throw new PrivateAddressError(bareHost(host));
  return addresses;
}

/**
 * Returns why a program that looks names up itself must not call `host[:port]`, or null. A name that does not resolve here passes:
 * that program reports it.
 */
export async function addressProblem(host: string): Promise<string | null> {
  const url = URL.parse(`https://${host}`);
  if (url === null) return `${host} is no host.`;
  try {
    await resolvePublicHost(url.hostname);
  } catch (error) {
    if (error instanceof PrivateAddressError) return error.message;
    // That program may find a name that DNS does not have, for example in a search domain.
    const { code = "" } = error as NodeJS.ErrnoException;
    const found = isUnknownName.test(code) ? await resolveHost(url.hostname).catch(() => []) : [];
    if (!found.every(isPublicAddress)) return new PrivateAddressError(bareHost(url.hostname)).message;
  }
  return null;
}

const isUnknownName = /^(ENOTFOUND|ENODATA|EBADNAME)$/;

/** Returns all addresses of a host, public or not, as the programs of this machine find them. */
export async function resolveHost(host: string): Promise<string[]> {
  const name = bareHost(host);
  return isIP(name) ? [name] : (await lookup(name, { all: true })).map((found) => found.address);
}

const bareHost = (host: string) => host.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");

/** Returns whether an address is loopback, where no other machine can read the traffic. */
export function isLoopbackAddress(address: string): boolean {
  return address === "::1" || (isIP(address) === 4 && address.startsWith("127."));
}

export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !specialIpv4.check(address);
    case 6:
      return globalIpv6.check(address, "ipv6") && !specialIpv6.check(address, "ipv6");
    default:
      return false;
  }
}

/** The IANA IPv4 Special-Purpose Address Registry (RFC 6890), multicast, and the host of a virtual machine in Azure. */
const specialIpv4 = rangesOf(
  "ipv4",
  "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24",
  "192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24",
  "168.63.129.16/32 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4",
);

/**
 * The only range of IPv6 from which IANA has allocated global addresses (RFC 4291, section 2.4). Everything else is refused,
 * because forms that contain an IPv4 address (`::ffff:0:127.0.0.1`, `64:ff9b::127.0.0.1`) keep being added outside of it.
 */
const globalIpv6 = rangesOf("ipv6", "2000::/3");

/** The part of the IANA IPv6 Special-Purpose Address Registry inside the global range, and the retired 6bone. */
const specialIpv6 = rangesOf("ipv6", "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20");

/** One list per family, because in a common list `::ffff:0:0/96` would match every IPv4 address. */
function rangesOf(family: "ipv4" | "ipv6", ...lines: string[]): BlockList {
  const list = new BlockList();
  for (const range of lines.flatMap((line) => line.split(" "))) {
    const [net = "", bits] = range.split("/");
    list.addSubnet(net, Number(bits), family);
  }
  return list;
}
