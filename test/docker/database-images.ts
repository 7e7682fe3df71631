import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { redisProgram } from "../provision/redis-server.ts";
import { findBinaries } from "../support/postgres-server.ts";
import { buildImage, copyPrograms, importRoot } from "./base-image.ts";

export const postgresImage = "pierhead-test/postgres:1";
export const redisImage = "pierhead-test/redis:1";

/** Why these images cannot be built here; undefined: they can. */
export const databaseImagesSkipped =
  findBinaries() === undefined || redisProgram === undefined ? "PostgreSQL and Redis (Debian packages)" : undefined;

/** Images that start like the official ones, built from this machine's PostgreSQL and Redis: 60 and 10 MB. */
export async function makeDatabaseImages(engine: Engine): Promise<void> {
  const binaries = findBinaries() as string;
  await importRoot(engine, "pierhead-test/postgres-files:1", (root) => layOutPostgres(root, binaries));
  const dockerfile = [
    "FROM pierhead-test/postgres-files:1",
    `ENV PATH=${binaries}:/usr/bin:/bin LC_ALL=C`,
    "COPY begin /begin",
    'ENTRYPOINT ["/bin/sh", "/begin"]',
    'CMD ["postgres"]',
  ];
  await buildImage(engine, postgresImage, { Dockerfile: dockerfile.join("\n"), begin });
  await importRoot(engine, redisImage, (root) => copyPrograms(root, { [redisProgram as string]: "/bin/redis-server" }));
}

/** Like the official image: hands its volume to a user of its own, creates a database there once, and serves as that user. */
const begin = `set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  chown -R postgres "$PGDATA" /tmp/password
  as="setpriv --reuid postgres --regid 70 --clear-groups"
  $as initdb --pgdata "$PGDATA" --username "$POSTGRES_USER" --pwfile /tmp/password --encoding UTF8 --locale C --no-sync > /dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "create database $POSTGRES_DB" | $as postgres --single -D "$PGDATA" postgres > /dev/null
fi
chown postgres /var/run/postgresql
exec setpriv --reuid postgres --regid 70 --clear-groups "$@" -c 'listen_addresses=*'
`;

/** Copies PostgreSQL of this machine into the tree of an image. */
export function layOutPostgres(root: string, binaries: string): void {
  const read = (flag: string) => execFileSync(path.join(binaries, "pg_config"), [flag], { encoding: "utf8" }).trim();
  const [shared, libraries] = [read("--sharedir"), read("--pkglibdir")];
  const own = ["postgres", "initdb", "pg_dump", "pg_restore", "pg_isready", "psql"].map((name) =>
    path.join(binaries, name),
  );
  const around = ["mkdir", "chown", "rm", "setpriv", "env", "cat"].map((name) => placeOf(name));
  const programs = [...own, ...around].map((file) => [file, file]);
  const modules = ["plpgsql.so", "dict_snowball.so", "pg_trgm.so"].map((name) => path.join(libraries, name));
  copyPrograms(root, { ...Object.fromEntries(programs), "/bin/sh": "/bin/sh" }, modules);
  for (const name of readdirSync(shared).filter((one) => one !== "man"))
    cpSync(path.join(shared, name), path.join(root, shared, name), { recursive: true, dereference: true });
  mkdirSync(path.join(root, "var/run/postgresql"), { recursive: true });
  writeFileSync(path.join(root, "etc/passwd"), "root:x:0:0::/:/bin/sh\npostgres:x:70:70::/:/bin/sh\n");
}

const placeOf = (name: string) =>
  [`/usr/bin/${name}`, `/bin/${name}`].find((file) => existsSync(file)) ?? `/usr/bin/${name}`;
