import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import { eventually, openRaw, route, startGateway, startTarget } from "./harness.ts";

type Raw = Awaited<ReturnType<typeof openRaw>>;

/** The possible next events. `pick` chooses among those that are open. */
const happening = fc.record({
  kind: fc.constantFrom("get", "stream", "upload", "socket", "finish", "cut", "leave", "held", "open"),
  pick: fc.nat(1_000),
});

test("counts requests in flight exactly, whatever clients and agent servers do", async () => {
  await using agents = await startAgents();
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { minLength: 5, maxLength: 40 }), async (happenings) => {
      await using site = await startGateway();
      const { gateway } = site;
      const targets = agents.map(({ agent }, at) => agent.target(`r${at}`));
      const ours = () => targets.map(({ replicaId }) => gateway.inFlight(replicaId));
      const theirs = () => agents.map(({ open }) => open.size);
      gateway.setRoute(route(targets));
      const clients: Raw[] = [];
      for (const { kind, pick } of happenings) {
        const open = agents.flatMap((agent) => [...agent.open]);
        if (kind === "held" || kind === "open") gateway.setRoute(route(targets, { state: kind }));
        else if (kind === "finish" || kind === "cut") chosen(open, pick)?.[kind]();
        else if (kind === "leave") chosen(clients, pick)?.socket.destroy();
        else clients.push(await openRaw(site.port, requestText(kind)));
        // At rest, both sides count the same for every replica. Two of three steps have no rest.
        if (pick % 3 === 0) await eventually(() => [ours(), theirs(), gateway.health().inFlight] as const, agree);
      }
      for (const client of clients) client.socket.destroy();
      await eventually(() => [...ours(), ...theirs(), gateway.health().inFlight, gateway.health().waiting], isAllZero);
      const { requests, answers, failures } = gateway.counts()[0] ?? assert.fail();
      const ends = [...Object.values(answers), ...Object.values(failures)].reduce((a, b) => a + b);
      assert.equal(requests <= clients.length && ends >= requests, true, "each request ended");
    }),
    { numRuns: 100 },
  );
});

test("answers pipelined requests in order, and ends all of them with their connection", async () => {
  await using agents = await startAgents();
  await using site = await startGateway();
  site.gateway.setRoute(route(agents.map(({ agent }, at) => agent.target(`r${at}`))));
  const all = () => site.gateway.health().inFlight;
  using stayer = await openRaw(site.port, requestText("get").repeat(3));
  using leaver = await openRaw(site.port, requestText("get").repeat(3));
  await eventually(all, (count) => count === 6);
  leaver.socket.destroy();
  await eventually(all, (count) => count === 3);
  // The gateway counts a request before its agent has received it.
  await eventually(
    () => agents.reduce((sum, { open }) => sum + open.size, 0),
    (count) => count === 3,
  );
  for (const { open } of agents) for (const entry of open) entry.finish();
  await stayer.until(/(done[\s\S]*){3}/);
  await eventually(all, (count) => count === 0);
});

const chosen = <T>(things: T[], pick: number): T | undefined => things[pick % Math.max(1, things.length)];

const agree = ([ours, theirs, all]: readonly [number[], number[], number]) =>
  ours.every((count, at) => count === theirs[at]) && all === ours.reduce((a, b) => a + b);
const isAllZero = (counts: number[]) => counts.every((count) => count === 0);

function requestText(kind: string): string {
  const start = (method: string) => `${method} /d/demo/${kind} HTTP/1.1\r\nHost: a\r\n`;
  if (kind === "upload") return `${start("POST")}Content-Length: 100000\r\n\r\n${"x".repeat(500)}`;
  if (kind === "socket") return `${start("GET")}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  return `${start("GET")}\r\n`;
}

interface Open {
  finish(): unknown;
  cut(): void;
}

/** Two agent servers that keep every request open until the test ends it. */
async function startAgents() {
  const agents = await Promise.all(
    [0, 1].map(async () => {
      const open = new Set<Open>();
      const agent = await startTarget((request, response) => {
        if (request.url === "/stream") response.write("data: begun\n\n");
        track(open, response, {
          finish: () => response.writableEnded || response.end("done"),
          cut: () => request.socket.destroy(),
        });
      });
      agent.server.on("upgrade", (_, socket: Duplex) => {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
        socket
          .resume()
          .on("error", () => {})
          .on("end", () => socket.end());
        track(open, socket, { finish: () => socket.end(), cut: () => socket.destroy() });
      });
      return { agent, open };
    }),
  );
  const stop = () => Promise.all(agents.map(({ agent }) => agent.stop()));
  return Object.assign(agents, { [Symbol.asyncDispose]: async () => void (await stop()) });
}

function track(open: Set<Open>, thing: ServerResponse | Duplex, entry: Open): void {
  open.add(entry);
  thing.on("close", () => open.delete(entry));
}
