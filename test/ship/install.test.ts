import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import * as tar from "tar";
import { bootMachine, machineSkipped } from "./machine.ts";
import { pack } from "./packed.ts";

/** `deploy/install.sh` on a machine with systemd that reaches no network: packages come from the cache of npm. */
const run = promisify(execFile);
let folder: string;

const forDocker = ["--node", "/srv/node", "--compute", "docker"];

const env: NodeJS.ProcessEnv = {
  ...process.env,
  npm_config_update_notifier: "false",
};
for (const name of Object.keys(env)) if (/^(PIERHEAD_|NODE_COMPILE_CACHE|TMPDIR)/.test(name)) delete env[name];

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "pierhead-install-"));
});
after(() => rm(folder, { recursive: true, force: true }));

/** Packs this clone, and the same under later versions: one that does not start and one that does. */
async function packVersions(): Promise<void> {
  const { filename } = await pack(process.cwd(), folder);
  await tar.extract({ file: path.join(folder, filename), cwd: folder });
  const manifest = path.join(folder, "package/package.json");
  const program = path.join(folder, "package/dist/main.js");
  const repack = async (version: string) => {
    await writeFile(manifest, JSON.stringify({ ...JSON.parse(await readFile(manifest, "utf8")), version }));
    await tar.create({ file: path.join(folder, `pierhead-${version}.tgz`), cwd: folder, gzip: { level: 1 } }, [
      "package",
    ]);
  };
  await repack("1.0.0");
  // A longer installer, which replaces the one that runs the upgrade.
  const installer = path.join(folder, "package/dist/install.sh");
  const shipped = await readFile(installer, "utf8");
  // What a user downloads is the installer that the package has.
  await writeFile(path.join(folder, "install.sh"), shipped);
  await writeFile(installer, `${shipped}${"# more\n".repeat(5_000)}touch /run/read-beyond-its-end\n`);
  await repack("1.2.0");
  await writeFile(installer, shipped);
  const works = await readFile(program, "utf8");
  const breaks = 'if (process.argv.includes("up")) throw new Error("this version is broken");';
  await writeFile(program, works.replace("\n", `\n${breaks}\n`));
  await repack("1.1.0");
  await rm(path.join(folder, "package"), { recursive: true });
  await copyFile(process.execPath, path.join(folder, "node"));
  // What an installation from npm leaves in the cache, of which the machine without a network installs. It is a cache of its
  // own: another program that asks for a package meanwhile would make npm here want a version that is not in it.
  const warm = [
    "install",
    "--prefix",
    path.join(folder, "warm"),
    "--omit=dev",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
  ];
  const cache = { npm_config_cache: path.join(folder, "npm-cache") };
  await run("npm", [...warm, path.join(folder, "pierhead-1.0.0.tgz")], { env: { ...env, ...cache }, maxBuffer: 1e8 });
}

test("the installer sets up a service, takes a broken upgrade back, keeps agents running, backs up and removes itself", {
  skip: machineSkipped ?? false,
}, async (t) => {
  await packVersions();
  const machine = await bootMachine(folder, {
    ...env,
    npm_config_cache: "/srv/npm-cache",
    npm_config_offline: "true",
  });
  const sh = async (command: string) => (await machine.inside("sh", "-c", command)).stdout.trim();
  const version = () => sh("pierhead --version");
  try {
    const beganAt = performance.now();
    const options =
      "--node /srv/node --compute process --keep-backups 3 --public-url https://pierhead.example.com --agents-domain agents.example.net";
    await sh("getent group docker || groupadd docker");
    const installed = await sh(`sh /srv/install.sh --package /srv/pierhead-1.0.0.tgz ${options}`);
    t.diagnostic(`installed in ${((performance.now() - beganAt) / 1_000).toFixed(1)} s`);
    assert.match(installed, /Pierhead 1\.0\.0 answers at http:\/\/127\.0\.0\.1:8124/);
    assert.equal(await sh("systemctl show pierhead -P User -P ActiveState --value | sort"), "active\npierhead");
    assert.equal(
      await sh("stat -c '%U %a' /var/lib/pierhead /etc/pierhead/master.key /etc/pierhead"),
      "pierhead 700\nroot 640\nroot 750",
    );
    assert.equal(await sh("systemctl is-active pierhead-backup.timer"), "active");
    assert.equal(await sh("id -nG pierhead"), "pierhead", "agents that run as processes would be root");

    await sh("pierhead deploy --template node-server --name hello");
    const agents = () => sh("pgrep -u pierhead -f server.js");
    const started = await agents();

    assert.match(
      await machine.fails("/opt/pierhead/install.sh", "upgrade", "--package", "/srv/pierhead-1.1.0.tgz"),
      /this version is broken[\s\S]*version 1\.1\.0 does not answer\. The one before is running again/,
    );
    assert.equal(await version(), "1.0.0");
    await sh("/opt/pierhead/install.sh upgrade --package /srv/pierhead-1.2.0.tgz");
    assert.equal(await version(), "1.2.0");
    assert.equal(await agents(), started);
    assert.match(await sh("cat /etc/systemd/system/pierhead-backup.service"), /tail -n \+4 /);
    assert.equal(await sh("ls /run/read-beyond-its-end 2>/dev/null || true"), "");
    // One before each upgrade.
    assert.match(await sh("stat -c '%U %a %n' /var/backups/pierhead/*"), /^(pierhead 600 \S+\.tar\.gz\n?){2}$/);
    assert.equal(await sh("ls /opt/pierhead/releases | wc -l"), "2");

    await sh("/opt/pierhead/install.sh uninstall");
    assert.equal(await sh("ps -u pierhead -o pid= || true"), "");
    assert.equal(await sh("ls /var/lib/pierhead/database | head -n 1 | wc -l"), "1");
    await sh("sh /srv/install.sh uninstall --purge");

    // The machine has no engine, so the server waits for one. What the installation prepared for it is there.
    const docker = await machine
      .inside("sh", "/srv/install.sh", "--package", "/srv/pierhead-1.0.0.tgz", ...forDocker)
      .then(
        ({ stdout }) => stdout,
        ({ stdout }: { stdout: string }) => stdout,
      );
    assert.match(docker, /The limits in \/etc\/sysctl\.d\/60-pierhead\.conf could not be set now/);
    assert.match(await sh("cat /etc/sysctl.d/60-pierhead.conf"), /^fs\.epoll\.max_user_watches = 1000000000$/m);
    assert.equal(await sh("id -nG pierhead"), "pierhead docker");
    await sh("sh /srv/install.sh uninstall --purge");
    assert.equal(await sh("ls /etc/sysctl.d/60-pierhead.conf 2>/dev/null || true"), "");
    assert.equal(
      await sh("ls -d /opt/pierhead /etc/pierhead /var/lib/pierhead /usr/local/bin/pierhead 2>/dev/null || true"),
      "",
    );
  } finally {
    await machine.end();
  }
});
