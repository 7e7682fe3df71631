import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { copyPrograms } from "../docker/base-image.ts";
import type { ImageMaker } from "./images.ts";

const module = path.join(import.meta.dirname, "buildkit");
const programs = ["buildkitd", "buildctl"] as const;

/** Programs that rootless BuildKit needs and this machine lacks; null: none is missing. */
export const buildkitMissing = [
  "/usr/bin/rootlesskit",
  "/usr/bin/newuidmap",
  "/usr/sbin/setcap",
  "/usr/sbin/runc",
].every((file) => existsSync(file))
  ? null
  : "rootlesskit, newuidmap, setcap, runc (apt-get install rootlesskit uidmap libcap2-bin runc)";

/** Compiles BuildKit from its Go modules, in some two minutes, unless it was compiled before. @returns its directory */
export async function compileBuildkit(): Promise<string> {
  const sums = readFileSync(path.join(module, "go.sum"));
  const digest = createHash("sha256").update(sums).digest("hex").slice(0, 16);
  const target = path.join(homedir(), ".cache", "pierhead-test", `buildkit-${digest}`);
  if (existsSync(target)) return target;
  const draft = await mkdtemp(path.join(tmpdir(), "pierhead-buildkit-"));
  const env = { ...process.env, CGO_ENABLED: "0" };
  for (const name of programs) {
    const from = `github.com/moby/buildkit/cmd/${name}`;
    const flags = ["build", "-trimpath", "-ldflags", "-s -w", "-o", path.join(draft, name), from];
    execFileSync("nice", ["-n", "19", "go", ...flags], { cwd: module, env, stdio: "inherit" });
  }
  await mkdir(path.dirname(target), { recursive: true });
  const made = `${target}.${process.pid}`;
  await mkdir(made);
  for (const name of programs) await copyFile(path.join(draft, name), path.join(made, name));
  await rename(made, target);
  await rm(draft, { recursive: true });
  return target;
}

/** Like `moby/buildkit:rootless`: BuildKit for user 1000, who may map the user ids of a namespace. */
export async function pushBuildkit(images: ImageMaker): Promise<string> {
  const built = await compileBuildkit();
  return images.push("buildkit:1", { Entrypoint: ["rootlesskit", "buildkitd"], User: "1000" }, (root) => {
    copyPrograms(root, {
      ...Object.fromEntries(["/bin/sh", "/bin/cat", "/bin/sleep"].map((file) => [file, file])),
      ...Object.fromEntries(
        ["rootlesskit", "newuidmap", "newgidmap"].map((name) => [`/usr/bin/${name}`, `/usr/bin/${name}`]),
      ),
      "/usr/sbin/runc": "/usr/bin/runc",
    });
    for (const name of programs) copyFileSync(path.join(built, name), path.join(root, "usr/bin", name));
    // As set-uid programs of root, they would lack the rights that the pod does not have.
    for (const name of ["newuidmap", "newgidmap"]) chmodSync(path.join(root, "usr/bin", name), 0o755);
    execFileSync("setcap", ["cap_setuid=ep", path.join(root, "usr/bin/newuidmap")]);
    execFileSync("setcap", ["cap_setgid=ep", path.join(root, "usr/bin/newgidmap")]);
    writeFileSync(path.join(root, "etc/passwd"), "root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n");
    writeFileSync(path.join(root, "etc/group"), "root:x:0:\nuser:x:1000:\n");
    for (const name of ["subuid", "subgid"]) writeFileSync(path.join(root, "etc", name), "user:100000:65536\n");
    mkdirSync(path.join(root, "home/user"), { recursive: true });
  });
}

/** Node with npm, on which generated Dockerfiles are based. */
export const pushNode = (images: ImageMaker) =>
  images.push("node:24", { Entrypoint: [] }, (root) => {
    const found = { [process.execPath]: "/usr/local/bin/node", "/usr/bin/env": "/usr/bin/env", "/bin/sh": "/bin/sh" };
    copyPrograms(root, found);
  });

/** The programs of Pierhead's own image for builds, at the paths at which the listener of this test has them. */
export const pushPusher = (images: ImageMaker) =>
  images.push("pierhead:1", { Entrypoint: ["node"] }, (root) => {
    const directory = path.resolve("src/compute/kubernetes/builds");
    copyPrograms(root, { [process.execPath]: "/usr/local/bin/node" });
    cpSync(directory, path.join(root, directory), { recursive: true });
    writeFileSync(path.join(root, directory, "package.json"), '{"type":"module"}');
  });
