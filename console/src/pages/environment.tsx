import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Deployment, Secret } from "../../../src/contract/deployment.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { Note } from "../parts/notes.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { VariablesEditor, variablesProblem } from "../parts/variables-editor.tsx";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";

/** The environment of the next revision: changes are gathered here, and deployed at once. */
export function EnvironmentPart({ deployment }: { deployment: Deployment }) {
  const { client, mayChange } = useSession();
  const { say, fail } = useToasts();
  const navigate = useNavigate();
  const [base, setBase] = useState(deployment.secrets);
  const [staged, setStaged] = useState<Secret[]>(deployment.secrets);
  const { added, changed, removed } = differences(base, staged);
  const isChanged = added.length + changed.length + removed.length > 0;
  const problem = variablesProblem(staged, deployment.source);
  const deploy = useMutation({
    mutationFn: () => client.createRevision({ deployment_id: deployment.id, body: { secrets: staged } }),
    onError: fail,
    onSuccess: () => {
      setBase(staged);
      say("A revision with the new environment was made.");
      void queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
      void navigate({
        to: "/o/$tenantId/host/deployments/$id",
        params: { tenantId: deployment.tenant_id, id: deployment.id },
      });
    },
  });
  if (!mayChange) return <ReadOnly deployment={deployment} />;
  const markOf = ({ name }: Secret) => (added.includes(name) ? "new" : changed.includes(name) ? "changed" : "");
  return (
    <>
      {isChanged && (
        <StagedChanges deployment={deployment} {...{ added, changed, removed }} problem={problem}>
          <button type="button" onClick={() => setStaged(base)}>
            Discard
          </button>
          <button
            type="button"
            className="primary"
            disabled={problem !== null || staged.length === 0 || deploy.isPending}
            onClick={() => deploy.mutate()}
          >
            Deploy these changes
          </button>
          <CopyAs
            call={{
              id: "createRevision",
              input: {
                deployment_id: deployment.id,
                body: { secrets: staged.map(({ name }) => ({ name, value: "…" })) },
              },
              cli: `npx pierhead env import ${deployment.id} .env`,
            }}
          />
        </StagedChanges>
      )}
      <VariablesEditor variables={staged} onChange={setStaged} markOf={markOf} />
      <References deployment={deployment} />
    </>
  );
}

/** What the cluster itself sets; Kubernetes keeps the values, and this server never sees them. */
function References({ deployment: { secret_references: references } }: { deployment: Deployment }) {
  if (references === null || references.length === 0) return null;
  return (
    <section aria-label="From Secrets of the cluster">
      <h2>From Secrets of the cluster</h2>
      <ul>
        {references.map(({ name, secret_name, secret_key }) => (
          <li key={name}>
            <code>{name}</code> ← <code>{`${secret_name}/${secret_key}`}</code>
          </li>
        ))}
      </ul>
    </section>
  );
}

function differences(before: readonly Secret[], after: readonly Secret[]) {
  const old = new Map(before.map(({ name, value }) => [name, value]));
  const names = new Set(after.map(({ name }) => name));
  return {
    added: after.filter(({ name }) => name !== "" && !old.has(name)).map(({ name }) => name),
    changed: after.filter(({ name, value }) => old.has(name) && old.get(name) !== value).map(({ name }) => name),
    removed: before.filter(({ name }) => !names.has(name)).map(({ name }) => name),
  };
}

interface StagedProps {
  deployment: Deployment;
  added: string[];
  changed: string[];
  removed: string[];
  problem: string | null;
  children: ReactNode;
}

function StagedChanges({ deployment, added, changed, removed, problem, children }: StagedProps) {
  const lines = Object.entries({ Added: added, Changed: changed, Removed: removed }).filter(
    ([, names]) => names.length > 0,
  );
  const isBranch = deployment.source === "github";
  return (
    <section className="note warn" aria-label="Staged changes">
      <b>Not deployed yet</b>
      <ul>
        {lines.map(([word, names]) => (
          <li key={word}>
            {word}: <code>{names.join(", ")}</code>
          </li>
        ))}
      </ul>
      <p>
        What this will do: one new revision with this environment.{" "}
        {isBranch ? "It takes the newest commit of its branch; " : "Its source stays as it is; "}
        what was built before is not built again. The one that serves goes on until the new one is healthy.
      </p>
      {problem !== null && <p className="bad-text">{problem}</p>}
      {added.length + changed.length === 0 && removed.length > 0 && problem === null && (
        <p className="soft">The API leaves an empty list of variables as it was: at least one has to stay.</p>
      )}
      <div className="row">{children}</div>
    </section>
  );
}

function ReadOnly({ deployment }: { deployment: Deployment }) {
  return (
    <>
      <Note>Your key may only read: it sees the names, not the values.</Note>
      <ul>
        {deployment.secrets.map(({ name }) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
      </ul>
      <References deployment={deployment} />
    </>
  );
}
