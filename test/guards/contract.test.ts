import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const directory = "docs/reference/contract";
const index = readFileSync(`${directory}/README.md`, "utf8");
const parts = new Map(
  readdirSync(directory)
    .filter((name) => name !== "README.md")
    .map((name) => [name, readFileSync(`${directory}/${name}`, "utf8")]),
);
const headings = new Map([...parts].map(([name, text]) => [name, headingsOf(text)]));

/** "7", "7.2" or "D10" at the start of a heading, and "13.27" for row 27 of a table whose rows are numbered. */
const anchors = new Set(
  [...parts].flatMap(([name, text]) => [
    ...(headings.get(name) ?? []).map((heading) => heading.split(" ", 1)[0] ?? ""),
    ...[...text.matchAll(/^\| (\d+) \|/gm)].map(([, row]) => `${chapterOf(name)}.${row}`),
  ]),
);

/** A list of sections such as "7.2", "9.3, 9.4", "4.1 and 4.6", "4.2 to 4.4" or "3.2 D1" after the word "contract". */
const section = String.raw`(?:\d{1,2}(?:\.\d{1,2})?|[DGILR]\d{1,2})(?!\w)`;
const citation = new RegExp(String.raw`\bcontract,? (${section}(?:(?:, and | and |, | to | )${section})*)`, "gi");

test("every citation of the contract names a section that exists", () => {
  const texts = execFileSync("git", ["ls-files", "src", "console/src", "test", "bench", "scripts", "docs", "*.md"], {
    encoding: "utf8",
  })
    .split("\n")
    .filter((file) => /\.(ts|tsx|mts|mjs|js|md|sql)$/.test(file));
  const cited = texts.flatMap((file) => citationsIn(readFileSync(file, "utf8")).map((name) => ({ file, name })));
  assert.ok(cited.length > 140, `only ${cited.length} citations were found`);
  assert.deepEqual(
    cited.filter(({ name }) => !anchors.has(name)),
    [],
  );
});

test("every rule of the contract cases starts with a section that exists", () => {
  const cases = readdirSync("test/contract-cases").filter((name) => name.endsWith(".jsonl"));
  const rules = cases.flatMap((name) => {
    const lines = readFileSync(`test/contract-cases/${name}`, "utf8").trimEnd().split("\n");
    return lines.map((line) => (JSON.parse(line) as { rule: string }).rule);
  });
  assert.ok(rules.length > 0);
  assert.deepEqual(
    rules.filter((rule) => !anchors.has(rule.split(" ", 1)[0] ?? "")),
    [],
  );
});

test("the index lists every part and every section of it, and nothing else", () => {
  const linked = [...index.matchAll(/\]\(([^)]+)\)/g)].map(([, target]) => target ?? "");
  const wanted = [...headings].flatMap(([name, [, ...rest]]) => [
    name,
    ...rest.filter((heading) => /^\d/.test(heading)).map((heading) => `${name}#${slugOf(heading)}`),
  ]);
  assert.deepEqual(linked.toSorted(), wanted.toSorted());
});

test("every section has the number of its chapter, and no number occurs twice", () => {
  for (const [name, [title, ...rest]] of headings) {
    const chapter = chapterOf(name);
    assert.ok(title?.startsWith(`${chapter} `), `${name}: ${title}`);
    for (const heading of rest) assert.match(heading, new RegExp(String.raw`^(${chapter}\.\d+|[DGILR]\d+) `), name);
  }
  const numbers = [...headings.values()].flat().map((heading) => heading.split(" ", 1)[0]);
  assert.deepEqual(numbers.toSorted(), [...new Set(numbers)].toSorted());
});

/** Line breaks and the marks of a comment are blanks, so that a citation may continue on the next line. */
function citationsIn(text: string): string[] {
  const line = text.replaceAll(/\s*\n\s*(?:\*(?!\/)|\/\/|--|>)?\s*/g, " ");
  return [...line.matchAll(citation)].flatMap(([, list]) =>
    [...(list ?? "").matchAll(new RegExp(section, "gi"))].map(([one]) => one),
  );
}

function headingsOf(text: string): string[] {
  return [...text.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading ?? "");
}

function chapterOf(name: string): string {
  return path.basename(name).split("-", 1)[0] ?? "";
}

/** The anchor that GitHub gives a heading. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
}
