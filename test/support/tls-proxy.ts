import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import tls from "node:tls";

export interface TlsDoor extends AsyncDisposable {
  /** As `https://127.0.0.1:port`. */
  url: string;
  /** PEM, for other programs that must trust it. */
  certificate: string;
}

/** Starts an HTTPS proxy for a test server. This process trusts its certificate from then on. */
export async function startTlsDoor(target: string): Promise<TlsDoor> {
  const { key, cert } = newCertificate();
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), cert]);
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const server = tls.createServer({ key, cert }, (near) => {
    const far = connect({ host: hostname, port: Number(port) });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.once("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    certificate: cert,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

const dayMs = 86_400_000;

/** Returns a new self-signed certificate for 127.0.0.1 (RFC 5280 4.1). */
export function newCertificate(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ecdsaWithSha256 = sequence(Buffer.from("06082a8648ce3d040302", "hex"));
  const commonName = sequence(der(0x31, sequence(Buffer.from("0603550403", "hex"), der(0x0c, Buffer.from("test")))));
  const time = (atMs: number) => der(0x18, Buffer.from(new Date(atMs).toISOString().replaceAll(/[-:T]|\.\d+/g, "")));
  const alternativeName = sequence(
    Buffer.from("0603551d11", "hex"),
    der(0x04, sequence(der(0x87, Buffer.of(127, 0, 0, 1)))),
  );
  const body = sequence(
    der(0xa0, Buffer.of(2, 1, 2)),
    der(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    ecdsaWithSha256,
    commonName,
    sequence(time(Date.now() - dayMs), time(Date.now() + dayMs)),
    commonName,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(alternativeName)),
  );
  const signature = der(0x03, Buffer.concat([Buffer.of(0), sign("sha256", body, privateKey)]));
  const text = sequence(body, ecdsaWithSha256, signature).toString("base64").replaceAll(/.{64}/g, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`,
  };
}

const sequence = (...parts: Buffer[]) => der(0x30, ...parts);

/** Encodes tag, length and content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.of(tag, ...head), content]);
}
