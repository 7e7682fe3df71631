import { useQuery } from "@tanstack/react-query";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { useSession } from "../session.tsx";

interface Change {
  name: string;
  before: string;
  after: string;
}

const shown = (value: unknown) =>
  value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value);

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
    .map((name) => ({ name, before: shown(old[name]), after: shown(now[name]) }))
    .filter((change) => change.before !== change.after);
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
      {changes.length === 0 && <p className="soft">The source is the same.</p>}
      {changes.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Field</th>
              <th>Before</th>
              <th>After</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((change) => (
              <tr key={change.name}>
                <td>{change.name}</td>
                <td className="removed">{change.before}</td>
                <td className="added">{change.after}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
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
  if (!mayAdminister)
    return <p className="soft">The audit log lists changes of the environment. Only admins can read it.</p>;
  if (entries.length === 0) return <p className="soft">The environment is the same.</p>;
  return (
    <ul>
      {entries.map(({ id, secrets, actor_name, actor }) => (
        <li key={id}>
          Environment changed by {actor_name ?? actor}: {namesText(secrets)}
        </li>
      ))}
    </ul>
  );
}

/** The audit entry of a change is written shortly after its revision. */
const laterThan = (at: string) => new Date(Date.parse(at) + 1_000).toISOString();

function namesText(secrets: { added: string[]; removed: string[]; changed: string[] } | null): string {
  const { added = [], removed = [], changed = [] } = secrets ?? {};
  const named = (word: string, names: string[]) => (names.length === 0 ? [] : [`${word} ${names.join(", ")}`]);
  return [...named("added", added), ...named("removed", removed), ...named("changed", changed)].join("; ");
}
