import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { test } from "node:test";

test("no file imports itself through others, types included", () => {
  assert.deepEqual(circlesOf(importGraph(["src", "console/src", "bench", "test"])), []);
});

test("finds a circle of three files, and does not take a shared import for one", () => {
  const graph = new Map([
    ["a", ["b", "d"]],
    ["b", ["c", "d"]],
    ["c", ["a"]],
    ["d", []],
  ]);
  assert.deepEqual(circlesOf(graph), [["a", "b", "c"]]);
});

function importGraph(directories: readonly string[]): Map<string, string[]> {
  const files = directories.flatMap((directory) =>
    readdirSync(directory, { recursive: true, encoding: "utf8" })
      .map((name) => posix.join(directory, name.replaceAll("\\", "/")))
      .filter((file) => /\.(ts|tsx|mts|mjs)$/.test(file) && !file.includes("node_modules")),
  );
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const specifiers = readFileSync(file, "utf8").matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
      const targets = [...specifiers].map(([, target = ""]) => posix.join(posix.dirname(file), target));
      return [file, targets.filter((target) => known.has(target))];
    }),
  );
}

/** Returns the strongly connected components with more than one file (Tarjan 1972), each sorted. */
function circlesOf(graph: Map<string, string[]>): string[][] {
  const index = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    lowest.set(file, index.get(file) as number);
    stack.push(file);
    for (const target of graph.get(file) ?? []) {
      if (!index.has(target)) visit(target);
      if (stack.includes(target)) lowest.set(file, Math.min(lowest.get(file) as number, lowest.get(target) as number));
    }
    if (lowest.get(file) !== index.get(file)) return;
    const circle = stack.splice(stack.indexOf(file));
    if (circle.length > 1) circles.push(circle.sort());
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return circles;
}
