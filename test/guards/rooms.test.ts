import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { test } from "node:test";

/** The rooms by floor, lowest first. A room imports rooms on lower floors only, types included: this list is the architecture. */
const floors = [
  ["base"],
  ["contract", "telemetry"],
  ["domain", "compute", "provision", "integrations", "gateway", "client"],
  ["store", "builds", "registry", "listener", "mcp"],
  ["reconciler", "auth", "webhooks", "cli"],
  ["api"],
  ["server"],
  ["main.ts"],
];
const floorOf = new Map(floors.flatMap((rooms, floor) => rooms.map((room) => [room, floor] as const)));
const roomOf = (file: string) => file.split("/")[1] ?? "";
const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.(ts|mts|mjs|js)$/.test(name))
  .map((name) => `src/${name.replaceAll("\\", "/")}`);

test("every import stays in its room or goes down a floor", () => {
  const offences: string[] = [];
  for (const file of sources) {
    for (const imported of importsOf(file)) {
      const [here, there] = [roomOf(file), roomOf(imported)];
      const goesDown = (floorOf.get(here) ?? -1) > (floorOf.get(there) ?? Number.POSITIVE_INFINITY);
      if (here !== there && !goesDown) offences.push(`${file} -> ${imported}`);
    }
  }
  assert.deepEqual(offences, []);
});

test("every file of src/ belongs to a room", () => {
  assert.deepEqual(
    sources.filter((file) => !floorOf.has(roomOf(file))),
    [],
  );
});

test("the listener and the builds do not import the store, and the reconciler does not import compute", () => {
  const forbidden = {
    listener: ["store"],
    reconciler: ["compute", "api"],
    builds: ["store"],
    api: ["reconciler"],
  } as const;
  const offences: string[] = [];
  for (const file of sources) {
    const refused: readonly string[] = forbidden[roomOf(file) as keyof typeof forbidden] ?? [];
    for (const imported of importsOf(file))
      if (refused.includes(roomOf(imported))) offences.push(`${file} -> ${imported}`);
  }
  assert.deepEqual(offences, []);
});

test("README.md and ARCHITECTURE.md name every room", () => {
  const rooms = floors.flat().filter((room) => room !== "main.ts");
  const tables = { "README.md": /^\| `([\w-]+)` \|/gm, "ARCHITECTURE.md": /(?:\| |· )`([\w-]+)`:/g };
  for (const [file, row] of Object.entries(tables)) {
    const named = [...readFileSync(file, "utf8").matchAll(row)].map(([, room]) => room);
    assert.deepEqual(
      named.filter((room) => rooms.includes(room ?? "")).sort(),
      [...rooms].sort(),
      `add the room to the table of ${file}`,
    );
  }
});

function importsOf(file: string): string[] {
  const text = readFileSync(file, "utf8");
  const specifiers = [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, target]) => target ?? "");
  return specifiers.map((target) => posix.join(posix.dirname(file), target));
}
