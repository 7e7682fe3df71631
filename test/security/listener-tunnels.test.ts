import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { encodeFrame, FrameReader } from "../../src/base/frames.ts";
import { type ExecEnd, execChannels, execFrameBytesMax, execProtocol } from "../../src/contract/deployments/exec.ts";
import { type TunnelOrder, tunnelChannels, tunnelProtocol } from "../../src/contract/listeners/tunnel.ts";
import { type HostileListener, openHostileListener, openUpgrade, ordersOf } from "./hostile-listener.ts";
import { startWithTwoWorkspaces, type TwoWorkspaces } from "./two-workspaces.ts";

/** What a listener must not do to the server and to the caller of a program, whatever it sends through a tunnel. */
let world: TwoWorkspaces;
let listener: HostileListener;
let deploymentId: string;
let orders: AsyncGenerator<TunnelOrder, void, undefined>;
const failures: Error[] = [];
const note = (error: Error) => void failures.push(error);

before(async () => {
  process.on("uncaughtException", note);
  world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "none" });
  listener = await openHostileListener(world.pierhead, world.attacker);
  ({ id: deploymentId } = await listener.deploy("agent"));
  const { key, epoch } = listener;
  orders = ordersOf(
    await openUpgrade(world.pierhead, { path: "/dp/v1/tunnels", key, protocol: tunnelProtocol, epoch }),
  );
});
after(async () => {
  process.off("uncaughtException", note);
  await orders.return();
  await world[Symbol.asyncDispose]();
});

const { started, output, errors, end } = execChannels;
const json = (channel: number, value: unknown) => encodeFrame(channel, JSON.stringify(value));
const late = [encodeFrame(output, "late"), encodeFrame(errors, "late")];

/** Runs a program through the listener, which answers with these frames. @returns the end that the caller sees */
async function endAfter(frames: Buffer[]): Promise<ExecEnd> {
  const path = `/v2/deployments/${deploymentId}/exec`;
  const user = await openUpgrade(world.pierhead, { path, key: world.attacker.apiKey, protocol: execProtocol });
  user.write(json(execChannels.start, { argv: ["true"] }));
  const { value: order } = (await orders.next()) as { value: TunnelOrder };
  const { key, epoch } = listener;
  const tunnel = await openUpgrade(world.pierhead, {
    ...{ path: `/dp/v1/tunnels/${order.tunnel_id}`, key, protocol: tunnelProtocol, epoch },
  });
  tunnel.resume();
  tunnel.write(Buffer.concat([json(tunnelChannels.found, { replica_id: "one", message: null }), ...frames]));
  let seen: ExecEnd | undefined;
  const reader = new FrameReader(execFrameBytesMax);
  for await (const chunk of user)
    for (const { channel, payload } of reader.read(chunk as Buffer))
      if (channel === end) seen = JSON.parse(payload.toString("utf8"));
  tunnel.destroy();
  return seen ?? assert.fail("the connection ended without an end of the program");
}

const runs = json(started, { has_terminal: false });
for (const [name, frames, code] of [
  ["sends output after the end of a program", [runs, json(end, { exit_code: 0, message: null }), ...late], 0],
  ["sends output after a failure", [runs, json(end, { exit_code: null, message: "gone" }), ...late], null],
  ["sends two ends", [runs, json(end, { exit_code: 3, message: null }), json(end, { exit_code: 0 }), ...late], 3],
  ["sends an exit code that is no number", [runs, json(end, { exit_code: "\u001b[2J", message: null })], null],
  ["sends a message that is no text", [runs, json(end, { exit_code: null, message: { a: 1 } })], null],
  ["sends null", [json(started, null)], null],
] as [string, Buffer[], number | null][]) {
  test(`a listener that ${name} must not end the server`, async () => {
    const { exit_code, message } = await endAfter(frames);
    assert.deepEqual([exit_code, failures], [code, []]);
    assert.ok(code !== null || typeof message === "string", JSON.stringify(message));
    assert.equal((await fetch(`${world.pierhead.url}/ok`)).status, 200);
  });
}
