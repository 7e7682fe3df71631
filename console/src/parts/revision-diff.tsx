import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { useSession } from "../session.tsx";
import { ChangedFields } from "./changed-fields.tsx";

interface Change {
  name: string;
  before: unknown;
  after: unknown;
}

function changesBetween(before: Revision, after: Revision): Change[] {
  const fieldsOf = ({ source, source_revision_config, image_version, rollout }: Revision): Record<string, unknown> => ({
    source,
    ...source_revision_config,
    image_version,
    rollout,
  });
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  // `framework_config_path` is an alias of `langgraph_config_path`.
  const names = Object.keys(now).filter((name) => name !== "framework_config_path");
  return names
    .map((name) => ({ name, before: old[name] ?? null, after: now[name] ?? null }))
    .filter(({ before: was, after: is }) => JSON.stringify(was) !== JSON.stringify(is));
}

/** The differences between two revisions. The names of changed variables come from the audit log. */
export function RevisionDiff({
  deployment,
  before,
  after,
}: {
  deployment: Deployment;
  before: Revision;
  after: Revision;
}) {
  const changes = changesBetween(before, after);
  return (
    <div className="diff">
      {changes.length === 0 && <p className="soft">The code is the same.</p>}
      {changes.length > 0 && <ChangedFields before="Before" changes={changes} />}
      <SecretChanges deployment={deployment} before={before} after={after} />
    </div>
  );
}

function SecretChanges({ deployment, before, after }: { deployment: Deployment; before: Revision; after: Revision }) {
  const { client, mayAdminister } = useSession();
  const audit = useQuery({
    queryKey: ["deployment", deployment.id, "audit", before.id, after.id],
    queryFn: ({ signal }) =>
      client.listAuditLog(
        { deployment_id: deployment.id, since: before.created_at, until: laterThan(after.created_at), page_size: 100 },
        { signal },
      ),
    enabled: mayAdminister,
  });
  const entries = (audit.data?.items ?? []).filter(
    (entry) => entry.secrets !== null && entry.created_at > before.created_at,
  );
  if (!mayAdminister) return <p className="soft">Admins see here which variables changed.</p>;
  if (audit.isPending) return null;
  if (entries.length === 0) return <p className="soft">The variables are the same.</p>;
  return (
    <ul className="plain">
      {entries.map(({ id, secrets, actor_name, actor }) => (
        <li key={id}>
          {actor_name ?? actor} <ChangedNames {...(secrets ?? {})} />
        </li>
      ))}
    </ul>
  );
}

/** The audit entry of a change is written shortly after its revision. */
const laterThan = (at: string) => new Date(Date.parse(at) + 1_000).toISOString();

function ChangedNames({ added = [], removed = [], changed = [] }: Record<string, string[]>) {
  const parts = Object.entries({ added, removed, changed }).filter(([, names]) => names.length > 0);
  if (parts.length === 0) return "changed the variables";
  return parts.map(([word, names], index) => (
    <Fragment key={word}>
      {index > 0 && "; "}
      {word} <code>{names.join(", ")}</code>
    </Fragment>
  ));
}
