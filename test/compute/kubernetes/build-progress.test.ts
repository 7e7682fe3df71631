import assert from "node:assert/strict";
import { test } from "node:test";
import { endOfPod } from "../../../src/compute/kubernetes/builds/build-end.ts";
import { BuildProgressReader } from "../../../src/compute/kubernetes/builds/progress.ts";

const line = (message: string) =>
  ({ key: message, timestamp: "2026-01-01T00:00:00Z", stream: "stdout", level: "INFO", message }) as const;

const shown = (reader: BuildProgressReader, lines: string[]) =>
  lines.flatMap((message) => reader.read(line(message))?.message ?? []);

test("shows instructions and their output, without the lines of BuildKit itself", () => {
  const reader = new BuildProgressReader();
  const lines = [
    "#1 [internal] load remote build context",
    "#1 DONE 0.1s",
    "#5 [pierhead-base 2/4] COPY base/programs/ /opt/pierhead/",
    "#5 CACHED",
    "#9 [stage-1 3/5] RUN npm ci",
    "#9 0.512 added 12 packages",
    "#9 DONE 0.6s",
    "#12 exporting to oci image format",
    "#12 exporting layers 0.3s done",
  ];
  assert.deepEqual(shown(reader, lines), [
    "> COPY base/programs/ /opt/pierhead/",
    "  unchanged since an earlier build",
    "> RUN npm ci",
    "added 12 packages",
  ]);
});

test("a failed build names the program that failed and its last lines", () => {
  const reader = new BuildProgressReader();
  const cause = 'process "/bin/sh -c node build.js" did not complete successfully: exit code: 7';
  const lines = [
    "#9 [2/2] RUN node build.js",
    "#9 0.512 no such model",
    `#9 ERROR: ${cause}`,
    "------",
    " > [2/2] RUN node build.js:",
    "0.512 no such model",
    "------",
    `ERROR: failed to solve: ${cause}`,
  ];
  assert.deepEqual(shown(reader, lines), ["> RUN node build.js", "no such model"]);
  assert.equal(reader.failure(), `${cause}. Last lines:\nno such model`);
});

test("a context that cannot be downloaded is no failure of the project, and its URL is not shown", () => {
  const reader = new BuildProgressReader();
  const url = "http://pierhead/build-contexts/1";
  const cause = "dial tcp 10.0.0.1:80: connect: connection refused";
  const lines = [
    "#1 [internal] load remote build context",
    `#1 ERROR: Get "${url}?signature=abc": ${cause}`,
    "------",
    " > [internal] load remote build context:",
    "------",
    `error: failed to solve: failed to read downloaded context: failed to load cache key: Get "${url}?signature=abc": ${cause}`,
  ];
  const [line, ...others] = shown(reader, lines);
  assert.deepEqual(others, []);
  assert.match(line ?? "", /^The cluster could not download the build context .*connection refused.*controlPlaneUrl/);
  assert.doesNotMatch(line + reader.failure(), /signature/);
  assert.ok(reader.failure().startsWith(line as string));
  const ended = { state: { terminated: { exitCode: 1 } }, name: "build" };
  const pod = { metadata: { name: "pod" }, status: { phase: "Failed", initContainerStatuses: [ended] } };
  assert.equal(endOfPod(pod, { memoryMib: 1, failure: () => reader.failure() })?.reason, "BuilderFailed");
});
