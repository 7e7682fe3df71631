import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { parse } from "yaml";
import { type PackedServer, pack, startPackedServer } from "./packed.ts";

/** The GitHub Action, the GitLab template and the Job of GitOps: their scripts, as the runner would start them, with the packed client on the packed server. */
const run = promisify(execFile);
let folder: string;
let server: PackedServer;
let tarball: string;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "pierhead-pipelines-"));
  server = await startPackedServer({ PIERHEAD_COMPUTE: "simulated" });
  const client = path.join(folder, "client");
  await run(process.execPath, ["scripts/client-package.mjs", client]);
  const { filename } = await pack(client, folder);
  tarball = path.join(folder, filename);
});
after(async () => {
  await server?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const declaration = (level: string) => `deployments:
  shop:
    source: internal_template
    template: node-server
    type: dev
    variables: { LOG_LEVEL: ${level} }
    secrets: { TOKEN: SHOP_TOKEN }
`;

/** Runs the lines of a script as both runners do: in one shell that stops at the first failure. Returns its exit code. */
async function script(lines: string[], env: Record<string, string>): Promise<number> {
  const own = { PATH: [path.dirname(process.execPath), process.env["PATH"]].join(path.delimiter), HOME: folder };
  const npm = Object.entries(process.env).filter(([name]) => /^(npm_config_|NODE_EXTRA_CA_CERTS)/i.test(name));
  const userConfig = { npm_config_userconfig: path.join(process.env["HOME"] ?? "", ".npmrc") };
  const cache = { npm_config_cache: path.join(process.env["HOME"] ?? "", ".npm") };
  const all = { ...own, ...userConfig, ...cache, ...Object.fromEntries(npm), SHOP_TOKEN: "hunter2", ...env };
  return run("bash", ["-eo", "pipefail", "-c", lines.join("\n")], { cwd: folder, env: all, maxBuffer: 1e8 }).then(
    ({ stdout, stderr }) => {
      assert.doesNotMatch(stdout + stderr, /hunter2/);
      return 0;
    },
    (error: { code: number; stderr: string }) => {
      console.error(error.stderr);
      return error.code;
    },
  );
}

interface Action {
  inputs: Record<string, { default?: string }>;
  runs: { steps: { run: string; env: Record<string, string> }[] };
}

test("the GitHub Action plans, applies, and finds nothing left to change", async () => {
  await writeFile(path.join(folder, "pierhead.yaml"), declaration("info"));
  const action = parse(await readFile("deploy/github-action/action.yml", "utf8")) as Action;
  const outputs = path.join(folder, "outputs");
  const job = async (given: Record<string, string>, steps = action.runs.steps) => {
    await writeFile(outputs, "");
    const inputs: Record<string, string> = { url: server.url, "api-key": server.apiKey, package: tarball, ...given };
    const inputOf = (_: string, name: string) => inputs[name] ?? action.inputs[name]?.default ?? "";
    for (const step of steps) {
      assert.doesNotMatch(step.run, /\$\{\{/, "an input in the text of a script could be another command");
      const env = Object.entries(step.env).map(([name, text]) => [
        name,
        text.replace(/\$\{\{ inputs\.(\S+) \}\}/, inputOf),
      ]);
      const code = await script([step.run], {
        ...Object.fromEntries(env),
        RUNNER_TEMP: folder,
        GITHUB_OUTPUT: outputs,
      });
      assert.equal(code, 0);
    }
    return readFile(outputs, "utf8");
  };
  assert.equal(await job({ command: "plan" }), "changed=true\n");
  const installed = action.runs.steps.slice(1);
  assert.equal(await job({}, installed), "");
  assert.equal((await server.client.listDeployments({})).resources[0]?.name, "shop");
  assert.equal(await job({ command: "plan" }, installed), "");
});

test("the GitLab template plans with an exit code that it allows, and applies", async () => {
  await writeFile(path.join(folder, "pierhead.yaml"), declaration("debug"));
  const jobs = parse(await readFile("deploy/gitlab/pierhead.gitlab-ci.yml", "utf8"));
  const env = {
    ...jobs[".pierhead"].variables,
    CI_PROJECT_DIR: folder,
    PIERHEAD_PACKAGE: tarball,
    PIERHEAD_URL: server.url,
    PIERHEAD_API_KEY: server.apiKey,
  };
  assert.equal(await script(jobs[".pierhead"].before_script, env), 0);
  assert.equal(await script(jobs["pierhead-plan"].script, env), jobs["pierhead-plan"].allow_failure.exit_codes);
  assert.equal(await script(jobs["pierhead-apply"].script, env), 0);
  assert.equal(await script(jobs["pierhead-plan"].script, env), 0);
});

test("the Job for Argo CD and Flux applies the declaration of its volume, and fails when a rollout fails", async () => {
  const job = parse(await readFile("deploy/gitops/job.yaml", "utf8"));
  const { volumes, containers } = job.spec.template.spec;
  const [{ args, env, volumeMounts }] = containers;
  const { configMapGenerator } = parse(await readFile("deploy/gitops/kustomization.yaml", "utf8"));
  assert.deepEqual(configMapGenerator, [{ name: volumes[0].configMap.name, files: ["pierhead.yaml"] }]);
  assert.equal(volumeMounts[0].name, volumes[0].name);
  const variables = Object.fromEntries(env.map(({ name, value }: { name: string; value: string }) => [name, value]));
  const given = { ...variables, PIERHEAD_URL: server.url, PIERHEAD_API_KEY: server.apiKey };
  const command = args.map((arg: string) => arg.replace(volumeMounts[0].mountPath, folder)).join(" ");
  const apply = () => script([`${folder}/pierhead/node_modules/.bin/pierhead ${command}`], given);
  await writeFile(path.join(folder, "pierhead.yaml"), declaration("warn"));
  assert.equal(await apply(), 0);
  const [found] = (await server.client.listDeployments({})).resources;
  assert.equal(found?.status, "READY");
  await writeFile(
    path.join(folder, "pierhead.yaml"),
    declaration("warn").replace("type: dev", "type: dev\n    build_command: 'false'"),
  );
  assert.equal(await apply(), 1);
});
