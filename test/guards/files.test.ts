import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => file !== "");
const code = tracked.filter((file) => /\.(ts|tsx|mts|mjs|js)$/.test(file));
const ours = code.filter((file) => file.startsWith("src/"));
const read = (file: string) => readFileSync(file, "utf8");

test("no file has more than 500 lines", () => {
  assert.deepEqual(
    code.filter((file) => read(file).trimEnd().split("\n").length > 500),
    [],
  );
});

test("files and folders are named in kebab-case, and none is called utils, helpers, common, manager or service", () => {
  const offences = ours.filter((file) => {
    const parts = file
      .split("/")
      .slice(1)
      .map((part) => part.replace(/\.(test\.)?(ts|mts|mjs|js)$/, ""));
    return parts.some(
      (part) =>
        !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(part) || /(^|-)(utils?|helpers?|common|manager|service|index)$/.test(part),
    );
  });
  assert.deepEqual(offences, []);
});

test("only main.ts, child-environment.ts and the entry files of other programs read the environment", () => {
  const ownMains = [
    "src/main.ts",
    "src/base/child-environment.ts",
    "src/builds/worker/worker.ts",
    "src/compute/kubernetes/builds/push-image.ts",
    "src/compute/kubernetes/builds/restore-cache.ts",
    "src/compute/kubernetes/builds/remove-images.ts",
    "src/compute/process/langgraph/langgraph-js-shim.ts",
    "src/compute/docker/entrypoints/langgraph-js-start.ts",
    "src/compute/listen-on-port.mjs",
    "src/compute/local-host.mjs",
  ];
  assert.deepEqual(
    ours.filter((file) => !ownMains.includes(file) && /process\.env\b/.test(read(file))),
    [],
  );
});

test("no program is started through a shell", () => {
  assert.deepEqual(
    ours.filter((file) => /shell:\s*true|\bexecSync\(|[^.\w]exec\(|execaCommand/.test(read(file))),
    [],
  );
});

test("no test is skipped, and no code is marked as unfinished", () => {
  const marks = new RegExp(["TO" + "DO", "FIX" + "ME", "\\bXXX\\b", "not " + "implemented"].join("|"));
  const self = "test/guards/files.test.ts";
  assert.deepEqual(
    code.filter((file) => file !== self && (marks.test(read(file)) || /\btest\.(skip|only|todo)\(/.test(read(file)))),
    [],
  );
});

test("every path that a document names exists", () => {
  const offences: string[] = [];
  for (const file of tracked.filter((name) => name.endsWith(".md") && !name.startsWith("templates/"))) {
    for (const [, target] of read(file).matchAll(/\]\((?!https?:|#|mailto:)([^)#]+)(?:#[^)]*)?\)/g)) {
      const wanted = path.posix.join(path.posix.dirname(file), target ?? "");
      if (!tracked.some((name) => name === wanted || name.startsWith(`${wanted.replace(/\/$/, "")}/`)))
        offences.push(`${file}: ${target}`);
    }
    for (const [, target] of read(file).matchAll(/`((?:src|test|bench|scripts|docs|templates|examples)\/[\w./-]+)`/g)) {
      const wanted = (target ?? "").replace(/\/$/, "");
      if (!tracked.some((name) => name === wanted || name.startsWith(`${wanted}/`)))
        offences.push(`${file}: ${target}`);
    }
  }
  assert.deepEqual(offences, []);
});

test("no lock file records where packages were downloaded", () => {
  const locks = tracked.filter((file) => file.endsWith("package-lock.json"));
  assert.deepEqual(
    locks.filter((file) => /"resolved": "http/.test(read(file))),
    [],
  );
});

test("rows of the audit log are written by src/store/tenants/audit.ts alone: auditedDeployment, audited", () => {
  assert.deepEqual(
    ours.filter((file) => file !== "src/store/tenants/audit.ts" && /insert into audit_log/.test(read(file))),
    [],
  );
});

test("migrations are numbered without gaps, each number once", () => {
  const numbers = tracked.flatMap(
    (file) => /^src\/store\/engine\/migrations\/(\d{4})_\w+\.sql$/.exec(file)?.slice(1) ?? [],
  );
  assert.ok(numbers.length > 0);
  assert.deepEqual(
    numbers.toSorted(),
    numbers.map((_, at) => String(at + 1).padStart(4, "0")),
  );
});
