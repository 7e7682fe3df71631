import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Client } from "../../client/client.ts";
import type { Deployment, DeploymentType, Secret } from "../../contract/deployments/deployment.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { nameFrom } from "../source/project.ts";
import type { DeployOptions } from "./deploy-options.ts";
import { findByName, nameTaken } from "./find-deployment.ts";
import { followRevision } from "./follow-revision.ts";
import { nameOfImage } from "./image-name.ts";
import { addVariables, readVariables } from "./variables.ts";

/**
 * Pushes an image of this machine's container engine to the server's registry, and deploys it.
 * @throws CliFailure without the program `docker`, or when it refuses the image, the login or the push.
 */
export async function push(session: Session, [image = ""]: string[], options: DeployOptions): Promise<void> {
  const { terminal, signal } = session;
  const { name: imageName, tag } = nameOfImage(image);
  const name = options.name ?? nameFrom(imageName);
  // Before the deployment exists: a misspelt image leaves nothing behind.
  await docker(session, ["image", "inspect", "--format", "{{.Id}}", image]);
  const client = await session.client();
  const variables = options.envFrom === undefined ? [] : await readVariables(session, options.envFrom);
  const found = await findByName(client, name, signal);
  if (found !== undefined) refuseOtherSource(found);
  const deployment = found ?? (await create(client, name, variables, options, signal));
  const { registry_url: registry, token } = await client.createPushToken({ deployment_id: deployment.id }, { signal });
  terminal.say(`Pushing ${image} for ${terminal.paintErr("bold", name)}`);
  const pushed = await pushImage(session, image, `${registry}/${imageName}:${tag}`, token);
  const body = { source_revision_config: { image_uri: pushed } };
  const changed = await addVariables(session, deployment, found === undefined ? [] : variables, (part, call) =>
    client.patchDeployment({ deployment_id: deployment.id, body: { ...body, ...part } }, call),
  );
  await followRevision(session, changed, changed.latest_revision_id ?? "", options);
}

function create(
  client: Client,
  name: string,
  secrets: Secret[],
  { type }: DeployOptions,
  signal: AbortSignal,
): Promise<Deployment> {
  const source_config = { deployment_type: (type ?? null) as DeploymentType | null };
  const body = { name, secrets, source: "internal_docker" as const, source_config, source_revision_config: {} };
  return client.createDeployment({ body }, { signal });
}

function refuseOtherSource({ name, source }: Deployment): void {
  if (source === "internal_docker") return;
  throw nameTaken(name, `${name} has the source ${source}, not pushed images.`);
}

/** Returns the pushed image by its digest, or by its tag if the engine does not know the digest. */
async function pushImage(session: Session, image: string, target: string, token: string): Promise<string> {
  const [registry = ""] = target.split("/");
  await docker(session, ["login", "--username", "oauth2accesstoken", "--password-stdin", registry], token);
  try {
    await docker(session, ["tag", image, target]);
    await docker(session, ["push", "--quiet", target]);
    const listed = await docker(session, ["image", "inspect", "--format", "{{json .RepoDigests}}", target]);
    const digests = JSON.parse(listed) as string[];
    const repository = target.slice(0, target.lastIndexOf(":"));
    return digests.find((digest) => digest.startsWith(`${repository}@`)) ?? target;
  } finally {
    // The token ends within the hour, and the name is of no use to this machine.
    await docker(session, ["logout", registry]).catch(() => undefined);
    await docker(session, ["image", "rm", "--no-prune", target]).catch(() => undefined);
  }
}

/** Runs `docker` and returns what it printed. @param input its stdin */
async function docker({ context, signal }: Session, argv: string[], input = ""): Promise<string> {
  // Keys of Pierhead are no business of other programs.
  const env = Object.fromEntries(Object.entries(context.env).filter(([name]) => !name.startsWith("PIERHEAD_")));
  const running = promisify(execFile)("docker", argv, { env, signal });
  running.child.stdin?.on("error", () => undefined).end(input);
  try {
    return (await running).stdout.trim();
  } catch (error) {
    signal.throwIfAborted();
    const { code, stderr = "" } = error as NodeJS.ErrnoException & { stderr?: string };
    if (code !== "ENOENT")
      throw new CliFailure(`docker ${argv[0]} ended with exit code ${code}.`, { because: stderr.trim() });
    throw new CliFailure("The program docker was not found.", {
      hints: ["Install Docker, whose engine has the image."],
    });
  }
}
