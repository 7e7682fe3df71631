import assert from "node:assert/strict";
import { test } from "node:test";
import type { BuildSource } from "../../src/builds/build.ts";
import { artifactKey } from "../../src/builds/cache/artifact.ts";

test("returns equal keys only for equal content", () => {
  const sizes = { memoryMib: 512, cpuCores: 1 };
  const imageTarget = {
    kind: "image" as const,
    host: "unix:///a",
    installationId: "i",
    nodeImage: "node:24",
    pythonImage: "python:3.12",
    registryAuthFile: null,
    ...sizes,
  };
  const build = {
    tenantId: "t",
    target: { kind: "directory" as const },
    configPath: null,
    installCommand: null,
    buildCommand: null,
    engine: null,
    defaultEngine: null,
  };
  const git: BuildSource = {
    kind: "git",
    repoUrl: "https://example.com/a",
    commitSha: "a",
    credential: null,
    allowLocal: false,
    allowPrivateNetwork: false,
  };
  const keys = [
    artifactKey({ ...build, source: git }),
    artifactKey({ ...build, source: git, tenantId: "u" }),
    artifactKey({ ...build, source: git, configPath: "x.json" }),
    artifactKey({ ...build, source: git, installCommand: "x" }),
    artifactKey({ ...build, source: git, buildCommand: "x" }),
    artifactKey({ ...build, source: git, builderVersion: "x" }),
    artifactKey({ ...build, source: git, nodeMajor: 1 }),
    artifactKey({ ...build, source: { ...git, commitSha: "b" } }),
    artifactKey({ ...build, source: { ...git, repoUrl: "https://example.com/b" } }),
    artifactKey({ ...build, source: { kind: "template", directory: "/x", digest: "a" } }),
    artifactKey({ ...build, source: { kind: "tarball", place: { path: "/x" }, sha256: "a" } }),
    artifactKey({ ...build, source: git, target: imageTarget }),
    artifactKey({ ...build, source: git, target: { ...imageTarget, pythonImage: "python:3.13" } }),
    artifactKey({ ...build, source: git, engine: "postgres" }),
    artifactKey({ ...build, source: git, defaultEngine: "postgres" }),
    artifactKey({ ...build, source: git, defaultEngine: "postgres", isDefaultKept: true }),
    artifactKey({ ...build, source: git, variables: { NEXT_PUBLIC_A: "a" } }),
  ];
  assert.equal(new Set(keys).size, keys.length);
  assert.match(keys[0] as string, /^[0-9a-f]{64}$/);
  const other = { ...git, credential: { username: "x", password: "y" }, allowLocal: true };
  assert.equal(artifactKey({ ...build, source: other }), keys[0]);
  assert.equal(
    artifactKey({ ...build, source: { kind: "tarball", place: { url: "https://s3.invalid/y" }, sha256: "a" } }),
    keys[10],
  );
});
