import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Engine } from "../../../src/compute/docker/engine/engine.ts";
import { findRegistryProgram } from "../../../src/registry/registry-process.ts";
import { buildGoProgram } from "../../support/go-program.ts";
import { buildImage, copyPrograms, importRoot } from "../base-image.ts";
import { databaseImagesSkipped, makeDatabaseImages, postgresImage, redisImage } from "../database-images.ts";

/** Builds Docker Compose, in three minutes of processor time. */
export const buildCompose = () =>
  buildGoProgram({
    name: "compose",
    directory: import.meta.dirname,
    version: "1",
    sources: ["go.mod", "go.sum"],
    args: ["-ldflags", "-s -w", "github.com/docker/compose/v2/cmd"],
  });

const caddyProgram = ["/usr/bin/caddy", "/usr/local/bin/caddy"].find(existsSync);

/** Why compose.yaml cannot be run here; undefined: it can. */
export const composeSkipped =
  databaseImagesSkipped ??
  (caddyProgram === undefined ? "caddy (Debian: apt-get install caddy)" : undefined) ??
  (findRegistryProgram() === null ? "docker-registry (Debian: apt-get install docker-registry)" : undefined);

/** Names in compose.yaml and of the databases of agents, and the images of this machine's programs that stand for them. */
export const imagesOfNames = {
  "postgres:17": postgresImage,
  "redis:7": redisImage,
  "registry:2": "pierhead-test/registry:1",
  "caddy:2": "pierhead-test/caddy:1",
};

/** Builds images that start like the official ones from the Debian packages of this machine. */
export async function makeComposeImages(engine: Engine): Promise<void> {
  await makeDatabaseImages(engine);
  await importRoot(engine, "pierhead-test/registry-files:1", (root) => {
    copyPrograms(root, { [findRegistryProgram() as string]: "/bin/registry" });
    write(root, "etc/docker/registry/config.yml", registrySettings);
  });
  await buildImage(engine, imagesOfNames["registry:2"], {
    Dockerfile:
      'FROM pierhead-test/registry-files:1\nCMD ["/bin/registry", "serve", "/etc/docker/registry/config.yml"]',
  });
  await importRoot(engine, "pierhead-test/caddy-files:1", (root) => {
    copyPrograms(root, { [caddyProgram as string]: "/usr/bin/caddy" });
    mkdirSync(path.join(root, "etc/caddy"), { recursive: true });
  });
  const caddy = ["run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"];
  await buildImage(engine, imagesOfNames["caddy:2"], {
    Dockerfile: [
      "FROM pierhead-test/caddy-files:1",
      "ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data",
      `CMD ${JSON.stringify(["/usr/bin/caddy", ...caddy])}`,
    ].join("\n"),
  });
}

/** Settings of the official image. */
const registrySettings = `version: 0.1
storage:
  cache: { blobdescriptor: inmemory }
  filesystem: { rootdirectory: /var/lib/registry }
http: { addr: ":5000" }
`;

function write(root: string, file: string, text: string): void {
  mkdirSync(path.join(root, path.dirname(file)), { recursive: true });
  writeFileSync(path.join(root, file), text);
}

/** Copies images from one engine to another. The tags are those of the first. */
export function copyImages(from: string, to: string, names: string[], directory: string): void {
  const archive = path.join(directory, "images.tar");
  execFileSync("docker", ["--host", from, "save", "--output", archive, ...names]);
  execFileSync("docker", ["--host", to, "load", "--quiet", "--input", archive]);
}
