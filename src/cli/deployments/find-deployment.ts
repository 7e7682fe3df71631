import { ApiFailure, type Client } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { nearest, shortId } from "../terminal/text.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** At least four characters, because shorter prefixes often match several of a hundred deployments. */
const idPrefix = /^[0-9a-f][0-9a-f-]{3,35}$/i;

/**
 * Returns the deployment with the given name, id, or unique prefix of an id.
 * @throws CliFailure without a match, with similar names as hints, or if the prefix is not unique.
 */
export async function findDeployment(session: Session, nameOrId: string): Promise<Deployment> {
  const client = await session.client();
  const named = await findByName(client, nameOrId, session.signal);
  if (named !== undefined) return named;
  if (uuid.test(nameOrId)) return getById(client, nameOrId, session.signal);
  const { withPrefix, names } = await scan(client, nameOrId, session.signal);
  const [found, another] = withPrefix;
  if (another !== undefined) {
    const hints = withPrefix.slice(0, 5).map(({ id, name }) => `${id}  ${name}`);
    throw new CliFailure(`The id ${nameOrId} is not unique.`, { hints });
  }
  if (found !== undefined) return found;
  const alike = nearest(nameOrId, names);
  const hint = alike.length > 0 ? `Did you mean ${alike.join(", ")}?` : "List deployments: pierhead list";
  throw new CliFailure(`There is no deployment "${nameOrId}".`, { hints: [hint] });
}

/** Returns the deployment with exactly this name, or undefined. */
export async function findByName(client: Client, name: string, signal: AbortSignal): Promise<Deployment | undefined> {
  const { resources } = await client.listDeployments({ name, limit: 1 }, { signal });
  return resources.find((deployment) => deployment.name === name);
}

/** Creates the failure for a name that a deployment of another source has. */
export const nameTaken = (name: string, what: string): CliFailure =>
  new CliFailure(what, {
    hints: ["Choose another name:  --name NAME", `Or delete it first:   pierhead delete ${name}`],
  });

/** Returns the revision of the deployment with the given number, id, or unique prefix of an id. */
export async function findRevision(session: Session, deployment: Deployment, id: string): Promise<Revision> {
  const client = await session.client();
  const found: Revision[] = [];
  const number = /^#?(\d{1,6})$/.exec(id)?.[1];
  for await (const revision of allRevisions(client, deployment.id, session.signal)) {
    if (number !== undefined && revision.number === Number(number)) return revision;
    // A mistyped number must not run the revision whose id begins with that digit.
    if (number !== undefined && revision.number !== null) continue;
    if (revision.id.startsWith(id.toLowerCase())) found.push(revision);
  }
  const [revision, another] = found;
  if (revision !== undefined && another === undefined) return revision;
  const what = revision === undefined ? "has no revision" : "has more than one revision with the prefix";
  throw new CliFailure(`${deployment.name} ${what} ${id}.`, {
    hints: [`List its revisions: pierhead status ${deployment.name}`],
  });
}

/** Yields all revisions, newest first. */
export async function* allRevisions(
  client: Client,
  deploymentId: string,
  signal: AbortSignal,
): AsyncGenerator<Revision, void, undefined> {
  for (let offset = 0; ; ) {
    const page = await client.listRevisions({ deployment_id: deploymentId, limit: 100, offset }, { signal });
    yield* page.resources;
    if (page.resources.length < 100) return;
    offset = page.offset;
  }
}

async function getById(client: Client, id: string, signal: AbortSignal): Promise<Deployment> {
  try {
    return await client.getDeployment({ deployment_id: id }, { signal });
  } catch (error) {
    if (!(error instanceof ApiFailure && error.status === 404)) throw error;
    throw new CliFailure(`There is no deployment ${shortId(id)}.`, { hints: ["List deployments: pierhead list"] });
  }
}

async function scan(client: Client, prefix: string, signal: AbortSignal) {
  const withPrefix: Deployment[] = [];
  const names: string[] = [];
  for await (const deployment of client.all("listDeployments", {}, { signal })) {
    names.push(deployment.name);
    if (idPrefix.test(prefix) && deployment.id.startsWith(prefix.toLowerCase())) withPrefix.push(deployment);
  }
  return { withPrefix, names };
}

/** @throws CliFailure for a deployment without a revision. */
export async function newestRevision(session: Session, deployment: Deployment): Promise<Revision> {
  const client = await session.client();
  if (deployment.latest_revision_id === null) throw new CliFailure(`${deployment.name} has no revision yet.`);
  const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id };
  return client.getRevision(ids, { signal: session.signal });
}
