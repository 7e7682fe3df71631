import { createSocket } from "node:dgram";
import { once } from "node:events";
import type { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import type { SliceView } from "../../src/listener/clusters/route-table.ts";

const suffix = ".svc.cluster.local";

/** The cluster's DNS for addresses of Services, and of the pods of headless ones: `NAME.NAMESPACE.svc.cluster.local`. Any other name does not exist. */
export async function startClusterDns(admin: ApiServer, address: string): Promise<AsyncDisposable> {
  const socket = createSocket("udp4");
  socket.on("message", async (query, { port, address: client }) => {
    const answer = await answerTo(admin, query).catch(() => reply(query, questionOf(query).end, 2, []));
    socket.send(answer, port, client);
  });
  socket.bind(53, address);
  await once(socket, "listening");
  return {
    async [Symbol.asyncDispose]() {
      socket.close();
    },
  };
}

async function answerTo(admin: ApiServer, query: Buffer): Promise<Buffer> {
  const { name, type, end } = questionOf(query);
  const [service = "", namespace = "", ...more] = name.slice(0, -suffix.length).split(".");
  if (!name.endsWith(suffix) || more.length > 0) return reply(query, end, 3, []);
  const found = await admin.get<{ spec: { clusterIP: string } }>(
    "Service",
    namespace,
    service,
    AbortSignal.timeout(5_000),
  );
  if (found === null) return reply(query, end, 3, []);
  if (type !== 1) return reply(query, end, 0, []);
  const { clusterIP } = found.spec;
  const addresses = clusterIP === "None" ? await podsOf(admin, namespace, service) : [clusterIP];
  return reply(query, end, addresses.length > 0 ? 0 : 3, addresses);
}

/** Returns the addresses behind a headless Service. */
async function podsOf(admin: ApiServer, namespace: string, service: string): Promise<string[]> {
  const labelSelector = `kubernetes.io/service-name=${service}`;
  const slices = await admin.list<SliceView>("EndpointSlice", namespace, { labelSelector }, AbortSignal.timeout(5_000));
  return slices.items.flatMap(({ endpoints = [] }) => endpoints.flatMap(({ addresses }) => addresses));
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A response of RFC 1035 with its question and A records that are valid for 5 s. */
function reply(query: Buffer, end: number, code: number, addresses: string[]): Buffer {
  const header = Buffer.from(query.subarray(0, 12));
  header.writeUInt16BE(0x8580 | code, 2);
  [1, addresses.length, 0, 0].forEach((count, index) => void header.writeUInt16BE(count, 4 + 2 * index));
  const records = addresses.map((one) =>
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, ...one.split(".").map(Number)]),
  );
  return Buffer.concat([header, query.subarray(12, end), ...records]);
}
