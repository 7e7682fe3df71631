import { createSocket } from "node:dgram";
import { once } from "node:events";
import { resolvePublicHost } from "../../src/integrations/outbound-address.ts";

/**
 * Program of slow-names.test.ts: a name server that answers only questions about `good`, and as many lookups of other names as an attacker
 * starts. It prints how long a lookup of `good` takes beside them, and which private names pass.
 */
const server = createSocket("udp4");
server.on("message", (question, from) => {
  const end = question.indexOf(0, 12) + 5;
  const name = question.subarray(13, 13 + (question[12] ?? 0)).toString();
  if (name.startsWith("slow")) return;
  const isIpv4 = question.readUInt16BE(end - 4) === 1;
  const address = name === "good" ? [93, 184, 215, 14] : [10, 0, 0, 7];
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address]);
  const answer = Buffer.concat([question.subarray(0, end), isIpv4 ? record : Buffer.alloc(0)]);
  answer.writeUInt16BE(0x8180, 2);
  answer.writeUInt16BE(isIpv4 ? 1 : 0, 6);
  answer.writeUInt32BE(0, 8);
  server.send(answer, from.port, from.address);
});
server.bind(53, "127.0.0.1");
await once(server, "listening");
for (let count = 0; count < 20; count += 1) resolvePublicHost(`slow-${count}.example.org`).catch(() => {});
const began = performance.now();
const addresses = await resolvePublicHost("good.example.org");
const ms = performance.now() - began;
const refused = await resolvePublicHost("private.example.org").then(
  () => false,
  (error: Error) => error.name === "PrivateAddressError",
);
process.stdout.write(JSON.stringify({ addresses, ms, refused }), () => process.exit());
