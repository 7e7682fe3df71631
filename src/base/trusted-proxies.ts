import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

/** The reverse proxies of the operator, whose `X-Forwarded-*` headers are true. Headers of every other peer are ignored. */
export interface TrustedProxies {
  /** Whether there is any. */
  readonly isAny: boolean;
  /** Whether this peer address is one of them. */
  has(address: string | undefined): boolean;
  /**
   * Returns the address of the client that sent a request: the peer, or behind trusted proxies the last address in
   * `X-Forwarded-For` that is not one of them. A client can write addresses only in front of that one. "" if the peer has left.
   */
  clientOf(request: Pick<IncomingMessage, "headers" | "socket">): string;
}

/**
 * @param list addresses and networks in CIDR notation, separated by commas: `127.0.0.1, 10.0.0.0/8, fd00::/8`.
 * @throws Error naming the first entry that is neither.
 */
export function readTrustedProxies(list: string): TrustedProxies {
  const entries = list.split(",").flatMap((entry) => (entry.trim() === "" ? [] : [entry.trim()]));
  const [ipv4, ipv6] = [new BlockList(), new BlockList()];
  for (const entry of entries) {
    const [net = "", bits, rest] = entry.split("/");
    const family = isIP(net);
    const widest = family === 4 ? 32 : 128;
    const length = bits === undefined ? widest : Number(/^\d{1,3}$/.test(bits) ? bits : Number.NaN);
    if (family === 0 || rest !== undefined || !(length <= widest)) {
      throw new Error(`must be addresses and networks such as 127.0.0.1, 10.0.0.0/8, got "${entry}"`);
    }
    if (family === 4) ipv4.addSubnet(net, length, "ipv4");
    else ipv6.addSubnet(net, length, "ipv6");
  }
  const has = (address = "") => {
    const plain = unmapped(address);
    const family = isIP(plain);
    if (family === 0) return false;
    return family === 4 ? ipv4.check(plain) : ipv6.check(plain, "ipv6");
  };
  return {
    isAny: entries.length > 0,
    has,
    clientOf({ headers, socket }) {
      let client = unmapped(socket.remoteAddress ?? "");
      if (!has(client)) return client;
      // Most of a long list is never looked at.
      for (const text of headers["x-forwarded-for"]?.toString().split(",").reverse() ?? []) {
        const one = unmapped(withoutPort(text.trim()));
        if (isIP(one) === 0) return client;
        client = one;
        if (!has(client)) return client;
      }
      return client;
    },
  };
}

/** No proxy is trusted. */
export const noTrustedProxies: TrustedProxies = readTrustedProxies("");

/** Some proxies add the client's port: `192.0.2.1:4711` or `[2001:db8::1]:4711` (RFC 7239, section 6, has the same forms). */
const withoutPort = (text: string) =>
  /^(\d+\.\d+\.\d+\.\d+):\d{1,5}$|^\[([\da-f:.]+)\](?::\d{1,5})?$/i.exec(text)?.slice(1).find(Boolean) ?? text;

/** Returns an IPv4 address that a dual-stack socket reports as IPv6 in its usual form. */
const unmapped = (address: string) => /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
