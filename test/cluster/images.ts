import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { copyPrograms } from "../docker/base-image.ts";
import { layOutPostgres } from "../docker/database-images.ts";
import { redisProgram } from "../provision/redis-server.ts";
import { findBinaries } from "../support/postgres-server.ts";

/** Programs that images need and this machine lacks; null: none is missing. */
export const imagesMissing =
  findBinaries() === undefined || redisProgram === undefined ? "postgresql and redis-server (Debian packages)" : null;

interface ImageConfig {
  Entrypoint: string[];
  Env?: string[];
  User?: string;
}

/** Pushes images of one layer, made from this machine's programs, to a registry without a password. */
export class ImageMaker {
  readonly registry: string;
  readonly #directory: string;

  constructor(registry: string, directory: string) {
    this.registry = registry;
    this.#directory = directory;
  }

  /** Pushes an image. @returns its name */
  async push(name: string, config: ImageConfig, layOut: (root: string) => void): Promise<string> {
    const root = await mkdtemp(path.join(this.#directory, "root-"));
    try {
      for (const directory of ["tmp", "etc", "proc", "sys", "dev"]) mkdirSync(path.join(root, directory));
      layOut(root);
      chmodSync(root, 0o755);
      chmodSync(path.join(root, "tmp"), 0o1777);
      const layer = `${root}.tar`;
      execFileSync("tar", [
        "-C",
        root,
        "--xattrs",
        "--xattrs-include=security.capability",
        "--numeric-owner",
        "--owner=0",
        "--group=0",
        "-cf",
        layer,
        ".",
      ]);
      const content = await readFile(layer);
      await rm(layer);
      return await this.#pushLayer(name, config, content);
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  }

  /** Gives an image a second tag in its repository. */
  async tag(image: string, tag: string): Promise<void> {
    const [repository, first] = image.slice(this.registry.length + 1).split(":");
    const at = (one: string | undefined) => `http://${this.registry}/v2/${repository}/manifests/${one}`;
    const accept = "application/vnd.oci.image.manifest.v1+json";
    const manifest = await send(at(first), { headers: { accept } });
    const body = await manifest.text();
    await send(at(tag), { method: "PUT", body, headers: { "content-type": accept } });
  }

  /** Returns the tags of a repository. */
  async tags(repository: string): Promise<string[]> {
    const answer = await fetch(`http://${this.registry}/v2/${repository}/tags/list`);
    const { tags } = (await answer.json()) as { tags?: string[] | null };
    return tags ?? [];
  }

  async #pushLayer(name: string, config: ImageConfig, content: Buffer): Promise<string> {
    const [repository, tag] = name.split(":") as [string, string];
    const layer = await this.#pushBlob(repository, content);
    const image = {
      architecture: "amd64",
      os: "linux",
      config: { ...config, Env: ["PATH=/usr/local/bin:/usr/bin:/bin", ...(config.Env ?? [])], WorkingDir: "/" },
      rootfs: { type: "layers", diff_ids: [layer.digest] },
    };
    const described = await this.#pushBlob(repository, Buffer.from(JSON.stringify(image)));
    const type = "application/vnd.oci.image.manifest.v1+json";
    const manifest = {
      schemaVersion: 2,
      mediaType: type,
      config: { mediaType: "application/vnd.oci.image.config.v1+json", ...described },
      layers: [{ mediaType: "application/vnd.oci.image.layer.v1.tar", ...layer }],
    };
    const url = `http://${this.registry}/v2/${repository}/manifests/${tag}`;
    await send(url, { method: "PUT", body: JSON.stringify(manifest), headers: { "content-type": type } });
    return `${this.registry}/${name}`;
  }

  async #pushBlob(repository: string, content: Buffer): Promise<{ digest: string; size: number }> {
    const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
    const begun = await send(`http://${this.registry}/v2/${repository}/blobs/uploads/`, { method: "POST" });
    const target = new URL(begun.headers.get("location") as string, `http://${this.registry}`);
    target.searchParams.set("digest", digest);
    const headers = { "content-type": "application/octet-stream" };
    await send(target.href, { method: "PUT", body: new Uint8Array(content), headers });
    return { digest, size: content.length };
  }
}

async function send(url: string, init: RequestInit): Promise<Response> {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(60_000) });
  if (!answer.ok) throw new Error(`${init.method ?? "GET"} ${url} answered ${answer.status}: ${await answer.text()}`);
  return answer;
}

/** The image of every pod's sandbox: a program that waits for a signal. */
export const pushPause = (images: ImageMaker) =>
  images.push("pause:1", { Entrypoint: ["/pause"] }, (root) => {
    execFileSync(
      "go",
      ["build", "-trimpath", "-o", path.join(root, "pause"), path.join(import.meta.dirname, "pause.go")],
      {
        env: { ...process.env, CGO_ENABLED: "0" },
      },
    );
  });

/** An agent on Node, as user 1000 of the pod. @param program the text of agent.mjs @param others programs of this machine */
export const pushAgent = (images: ImageMaker, name: string, program: string, others: string[] = []) =>
  images.push(name, { Entrypoint: ["node", "/app/agent.mjs"] }, (root) => {
    const programs = Object.fromEntries(others.map((file) => [file, file]));
    copyPrograms(root, { [process.execPath]: "/usr/local/bin/node", ...programs });
    mkdirSync(path.join(root, "app"));
    for (const one of ["pg", "@redis/client"]) copyPackage(root, one, new Set());
    writeFileSync(path.join(root, "app/agent.mjs"), program);
  });

/** Pierhead itself, from its sources, with git, as user 1000 of the pod. */
export const pushPierhead = (images: ImageMaker) =>
  images.push("pierhead:test", { Entrypoint: ["node", "/app/src/main.ts"] }, (root) => {
    const remote = path.join(execFileSync("git", ["--exec-path"], { encoding: "utf8" }).trim(), "git-remote-http");
    const programs = Object.fromEntries(["/usr/bin/env", "/usr/bin/git", remote].map((file) => [file, file]));
    copyPrograms(root, { [process.execPath]: "/usr/local/bin/node", ...programs });
    const { dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as { dependencies: object };
    const copied = new Set<string>();
    for (const one of Object.keys(dependencies)) copyPackage(root, one, copied);
    for (const one of ["package.json", "src", "templates", "engines/langgraph-js-postgres/src"])
      cpSync(one, path.join(root, "app", one), { recursive: true });
  });

/** Copies a package of this repository and what it depends on. */
function copyPackage(root: string, name: string, copied: Set<string>): void {
  const from = path.resolve("node_modules", name);
  if (copied.has(name) || !existsSync(from)) return;
  copied.add(name);
  cpSync(from, path.join(root, "app/node_modules", name), { recursive: true, dereference: true });
  const { dependencies = {} } = JSON.parse(readFileSync(path.join(from, "package.json"), "utf8"));
  for (const one of Object.keys(dependencies)) copyPackage(root, one, copied);
}

/** Like the official image `registry`. */
export const pushRegistry = (images: ImageMaker) =>
  images.push("registry:2", { Entrypoint: ["registry"] }, (root) =>
    copyPrograms(root, { "/usr/bin/docker-registry": "/usr/bin/registry", "/bin/sh": "/bin/sh" }),
  );

/** Like the official image as root: its entry point changes to the user `redis`, for which it needs capabilities. */
const redisEntrypoint = `#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then exec setpriv --reuid 999 --regid 999 --clear-groups redis-server "$@"; fi
exec redis-server "$@"
`;

export const pushRedis = (images: ImageMaker) =>
  images.push("redis:7", { Entrypoint: ["/entrypoint"] }, (root) => {
    const programs = { [redisProgram as string]: "/bin/redis-server", "/bin/sh": "/bin/sh" };
    copyPrograms(root, { ...programs, "/usr/bin/id": "/usr/bin/id", "/usr/bin/setpriv": "/usr/bin/setpriv" });
    writeFileSync(path.join(root, "entrypoint"), redisEntrypoint, { mode: 0o755 });
    writeFileSync(path.join(root, "etc/passwd"), "root:x:0:0::/:/bin/sh\nredis:x:999:999::/:/bin/sh\n");
  });

/** Like the official image: creates a database once and serves it, as the user of the pod. */
const postgresEntrypoint = `#!/bin/sh
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  initdb --pgdata "$PGDATA" --username "$POSTGRES_USER" --pwfile /tmp/password --encoding UTF8 --locale C --no-sync > /dev/null
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "create database $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres > /dev/null
fi
exec postgres "$@" -c 'listen_addresses=*'
`;

export function pushPostgres(images: ImageMaker): Promise<string> {
  const binaries = findBinaries() as string;
  const Env = [`PATH=${binaries}:/usr/bin:/bin`, "LC_ALL=C"];
  return images.push("postgres:15", { Entrypoint: ["/entrypoint"], Env }, (root) => {
    layOutPostgres(root, binaries);
    chmodSync(path.join(root, "var/run/postgresql"), 0o1777);
    writeFileSync(path.join(root, "entrypoint"), postgresEntrypoint, { mode: 0o755 });
    writeFileSync(path.join(root, "etc/passwd"), "root:x:0:0::/:/bin/sh\npostgres:x:999:999::/:/bin/sh\n");
  });
}
