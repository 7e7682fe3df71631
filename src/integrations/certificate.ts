import { isIP } from "node:net";
import { connect } from "node:tls";
import { unlessAborted } from "../base/unless-aborted.ts";

const timeoutMs = 10_000;

/**
 * Returns when the certificate with which an address answers expires, also if it is not trusted or for another name.
 * @param address as `https://host:port`
 * @param options.resolve finds the network address to connect to, for addresses of users; absent: the system does.
 * @throws Error if no TLS connection is made within ten seconds.
 */
export async function readCertificateExpiry(
  address: string,
  signal: AbortSignal,
  { resolve }: { resolve?: (host: string) => Promise<string[]> } = {},
): Promise<Date> {
  const { hostname, port } = new URL(address);
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const [near = host] = resolve === undefined ? [] : await unlessAborted(() => resolve(hostname), limit);
  // Accepts a certificate that is not trusted, because users would notice its expiry too. No data is sent.
  const socket = connect({
    ...{ host: near, port: Number(port || 443), rejectUnauthorized: false },
    ...(isIP(host) === 0 && { servername: host }),
  });
  try {
    return await new Promise<Date>((resolve, reject) => {
      limit.throwIfAborted();
      limit.addEventListener("abort", () => reject(limit.reason), { once: true });
      socket.once("error", reject);
      socket.once("secureConnect", () => {
        const expiresAt = new Date(socket.getPeerCertificate().valid_to);
        if (Number.isNaN(expiresAt.getTime())) reject(new Error("the server sent no certificate"));
        else resolve(expiresAt);
      });
    });
  } finally {
    socket.on("error", () => {});
    socket.destroy();
  }
}
