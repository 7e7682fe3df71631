import { closeSync, openSync } from "node:fs";
import { resolveRef } from "../../src/integrations/git.ts";
import { openSsh } from "../../src/integrations/ssh.ts";
import { begin, scratch } from "../builds/fixtures.ts";

/** Starts programs while this process has almost no file descriptors left, and prints a line if the process survives. */
const [repoUrl = ""] = process.argv.slice(2);
const signal = AbortSignal.timeout(60_000);
await using place = await scratch();

type Act = () => Promise<() => Promise<unknown>>;

/** Each returns its cleanup function. */
const acts: Act[] = [
  async () => {
    await resolveRef({
      ...{ repoUrl, ref: "main", credential: null, allowLocal: true, allowPrivateNetwork: true },
      ...{ signal, timeoutMs: 20_000 },
    });
    return async () => {};
  },
  async () => {
    const key = { privateKey: "none", knownHosts: "" };
    const target = { host: "git.example", port: null, address: null };
    const ssh = await openSsh(place.dir, { key, target, timeoutMs: 20_000 }, signal);
    return () => ssh.close();
  },
  async () => {
    const { build } = begin(place.dir, { kind: "template", directory: place.dir, digest: "none" });
    return () => build.cancel();
  },
];

function takeAllBut(left: number): number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync("/dev/null", "r"));
  } catch {
    for (const one of taken.splice(-left)) closeSync(one);
    return taken;
  }
}

for (let left = 2; left <= 14; left += 1) {
  for (const act of acts) {
    const taken = takeAllBut(left);
    const tidy = await act().catch(() => async () => {});
    for (const one of taken) closeSync(one);
    await tidy();
  }
}
console.log("still here");
process.exit();
