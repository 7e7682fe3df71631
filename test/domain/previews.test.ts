import assert from "node:assert/strict";
import { test } from "node:test";
import { previewDefaults } from "../../src/contract/integrations/git-settings.ts";
import { nextCommitState } from "../../src/domain/commit-report.ts";
import { checkPatterns, comparePaths, isRelevantChange } from "../../src/domain/path-filter.ts";
import { type KnownPreview, type OpenPull, planPreviews } from "../../src/domain/preview-plan.ts";
import { repositoryKey } from "../../src/domain/repository-key.ts";

const now = new Date("2026-11-21T12:00:00Z");
const pull = (number: number, more: Partial<OpenPull> = {}): OpenPull => ({
  ...{ number, headRef: `feature-${number}`, headSha: `sha-${number}`, isOwn: true, labels: [], ...more },
});
const preview = (number: number, more: Partial<KnownPreview> = {}): KnownPreview => ({
  ...{ number, deploymentId: `d-${number}`, headSha: `sha-${number}`, activeAt: now, ...more },
});
const plan = (pulls: OpenPull[], known: KnownPreview[], settings: Partial<typeof previewDefaults> | null = {}) =>
  planPreviews(pulls, known, settings && { ...previewDefaults, ...settings }, now).map((step) => {
    if (step.kind === "remove") return `remove ${step.number}${step.isClosed ? "" : " for now"}`;
    return `${step.kind} ${step.pull.number}`;
  });

test("creates a preview per pull request, updates it per commit and removes it on close", () => {
  assert.deepEqual(plan([pull(1)], []), ["create 1"]);
  assert.deepEqual(plan([pull(1)], [preview(1)]), []);
  assert.deepEqual(plan([pull(1, { headSha: "newer" })], [preview(1)]), ["update 1"]);
  assert.deepEqual(plan([], [preview(1)]), ["remove 1"]);
});

test("never exceeds the limit of previews, and prefers the oldest pull requests", () => {
  const pulls = [1, 2, 3, 4].map((number) => pull(number));
  assert.deepEqual(plan(pulls, [], { max_previews: 2 }), ["create 1", "create 2"]);
  assert.deepEqual(plan(pulls, [preview(1), preview(2)], { max_previews: 2 }), []);
  assert.deepEqual(plan(pulls.slice(1), [preview(1), preview(2)], { max_previews: 2 }), ["remove 1", "create 3"]);
});

test("removes an idle preview, and creates it again with the next commit", () => {
  const old = new Date(now.getTime() - 72 * 3_600_000);
  assert.deepEqual(plan([pull(1)], [preview(1, { activeAt: old })]), ["remove 1 for now"]);
  assert.deepEqual(plan([pull(1)], [preview(1, { activeAt: new Date(old.getTime() + 1) })]), []);
  assert.deepEqual(plan([pull(1)], [preview(1, { deploymentId: null })]), []);
  assert.deepEqual(plan([pull(1, { headSha: "newer" })], [preview(1, { deploymentId: null })]), ["create 1"]);
  assert.deepEqual(plan([], [preview(1, { deploymentId: null })]), ["remove 1"]);
});

test("creates no preview for forks, nor for pull requests without the required label", () => {
  assert.deepEqual(plan([pull(1, { isOwn: false })], []), []);
  assert.deepEqual(plan([pull(1), pull(2, { labels: ["preview"] })], [], { trigger: "label" }), ["create 2"]);
  assert.deepEqual(plan([pull(1)], [preview(1)], { trigger: "label" }), ["remove 1"]);
  assert.deepEqual(plan([pull(1)], [preview(1)], null), ["remove 1"]);
});

test("reports progress and result to the host, but not a commit superseded before its first report", () => {
  assert.equal(nextCommitState("QUEUED", null), null);
  assert.equal(nextCommitState("BUILDING", null), "in_progress");
  assert.equal(nextCommitState("DEPLOYING", "in_progress"), null);
  assert.equal(nextCommitState("DEPLOYED", "in_progress"), "success");
  assert.equal(nextCommitState("BUILD_FAILED", null), "failure");
  assert.equal(nextCommitState("SKIPPED", null), null);
  assert.equal(nextCommitState("SKIPPED", "in_progress"), "skipped");
});

test("returns one key for all spellings of a repository's address", () => {
  for (const url of [
    ...["https://GitHub.com/Acme/Bot", "https://github.com/acme/bot.git", "https://github.com/acme/bot/"],
    ...["ssh://git@github.com/acme/bot.git", "ssh://git@github.com:2222/acme/bot", "git@github.com:acme/bot.git"],
  ]) {
    assert.equal(repositoryKey(url), "github.com/acme/bot", url);
  }
  assert.equal(repositoryKey("http://127.0.0.1:3000/acme/bot"), "127.0.0.1:3000/acme/bot");
  assert.equal(repositoryKey("what is this"), null);
  const began = performance.now();
  assert.ok(repositoryKey(`https://example.com/a${"/".repeat(200_000)}b`)?.endsWith("//b"));
  assert.ok(performance.now() - began < 1_000, "the sender of a message decides how long the address is");
});

test("matches paths by .gitignore patterns, and always counts an unknown set of files", () => {
  const filter = { include: ["agents/support/**", "*.toml"], exclude: ["*.md", "agents/support/docs/"] };
  for (const [paths, isRelevant] of [
    [["agents/support/graph.ts"], true],
    [["deep/down/pyproject.toml"], true],
    [["agents/other/graph.ts"], false],
    [["agents/support/README.md"], false],
    [["agents/support/docs/guide.txt"], false],
    [["agents/support/README.md", "agents/support/a.ts"], true],
    [[], false],
    [null, true],
  ] as const) {
    assert.equal(isRelevantChange(paths, filter), isRelevant, JSON.stringify(paths));
  }
  assert.equal(isRelevantChange(["x"], { include: null, exclude: ["docs"] }), true);
  assert.equal(isRelevantChange([], { include: null, exclude: null }), true);
});

test("refuses patterns that are expensive to compare, and no path makes accepted ones slow", () => {
  for (const pattern of ["**/**/**/x", "a*b*c*d*e", "#note", " ", "a\nb"]) {
    assert.throws(() => checkPatterns("include_paths", [pattern]), /include_paths/, pattern);
  }
  checkPatterns("include_paths", ["**/src/**/*.ts", "!keep.md", "a*b*c*"]);
  const began = performance.now();
  const hostile: [path: string, pattern: string][] = [
    [`${"a".repeat(250)}/`.repeat(16), "**/a*a*a*b/**/a*a*a*b"],
    [`${"a".repeat(40)}/`.repeat(8), `${"*a*a*/".repeat(8)}b`],
    [`${"x/".repeat(2_000)}z`, "**/x/**/y"],
    ["a".repeat(4_000), "a*a*a*b"],
  ];
  for (const [path, pattern] of hostile) {
    assert.equal(isRelevantChange([path], { include: [pattern], exclude: null }), false, pattern);
  }
  assert.ok(performance.now() - began < 2_000);
});

test("compares many files in short steps, so that a server can do other work meanwhile", () => {
  const paths = Array.from({ length: 200_000 }, () => "aaaa/bbbb");
  const filter = { include: ["**/*a*a*b", "**/b*b*a"], exclude: null };
  let longestMs = 0;
  const steps = comparePaths(paths, filter);
  for (let isDone = false, count = 0; !isDone; count += 1) {
    const beganAt = performance.now();
    const step = steps.next();
    // The first step also adds up what there is to compare.
    if (count > 0) longestMs = Math.max(longestMs, performance.now() - beganAt);
    isDone = step.done === true;
    if (step.done) assert.deepEqual([step.value, count > 20], [false, true]);
  }
  assert.ok(longestMs < 300, `${longestMs} ms`);
});

test("counts a push with too many files to compare", () => {
  const paths = Array.from({ length: 10_000 }, (_, index) => `${"directory/".repeat(10)}${index}.ts`);
  const began = performance.now();
  assert.equal(isRelevantChange(paths.slice(0, 1_000), { include: ["docs/**"], exclude: ["*.md"] }), false);
  assert.equal(isRelevantChange(paths, { include: ["docs/**".repeat(10)], exclude: null }), true);
  assert.ok(performance.now() - began < 2_000);
});
