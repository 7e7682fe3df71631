import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment, Secret, SecretReference } from "../../../src/contract/deployments/deployment.ts";
import { checkOneOrigin, checkSecretReferences } from "../../../src/domain/secret-names.ts";
import { type Environment, rebased } from "../environment.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { Note } from "../parts/notes.tsx";
import { ReferencesEditor } from "../parts/references-editor.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { VariablesEditor, variablesProblem } from "../parts/variables-editor.tsx";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";

/** The environment of the next revision: changes are gathered here, and deployed at once. */
export function EnvironmentPart({ deployment }: { deployment: Deployment }) {
  const { mayChange } = useSession();
  const { secrets, secret_references } = deployment;
  const [base, setBase] = useState<Environment>({ secrets, references: secret_references ?? [] });
  const [staged, setStaged] = useState(base);
  const ofSecrets = differences(base.secrets, staged.secrets);
  const ofReferences = differences(base.references.map(asVariable), staged.references.map(asVariable));
  if (!mayChange) return <ReadOnly deployment={deployment} />;
  const markOf = ({ name }: Secret) =>
    ofSecrets.added.includes(name) ? "new" : ofSecrets.changed.includes(name) ? "changed" : "";
  return (
    <>
      <StagedChanges
        deployment={deployment}
        isEmptied={base.secrets.length > 0 && staged.secrets.length === 0}
        base={base}
        staged={staged}
        hasNewReferences={Object.values(ofReferences).flat().length > 0}
        lines={{
          Added: [...ofSecrets.added, ...ofReferences.added],
          Changed: [...ofSecrets.changed, ...ofReferences.changed],
          Removed: [...ofSecrets.removed, ...ofReferences.removed],
        }}
        onDiscard={() => setStaged(base)}
        onDeployed={(deployed) => {
          setBase(deployed);
          setStaged(deployed);
        }}
      />
      <VariablesEditor
        variables={staged.secrets}
        onChange={(changed) => setStaged({ ...staged, secrets: changed })}
        markOf={markOf}
      />
      {deployment.source === "external_docker" && (
        <ReferencesEditor
          references={staged.references}
          onChange={(changed) => setStaged({ ...staged, references: changed })}
        />
      )}
    </>
  );
}

const asVariable = ({ name, secret_name, secret_key }: SecretReference) => ({
  name,
  value: `${secret_name}/${secret_key}`,
});

/** Why the server would refuse these, in its words; null: it would not. */
function problemOf({ secrets, references }: Environment, source: Deployment["source"]): string | null {
  try {
    checkSecretReferences(references, source);
    checkOneOrigin(
      secrets.map(({ name }) => name),
      references,
    );
    return variablesProblem(secrets, source);
  } catch (error) {
    return textOf(error);
  }
}

/** As {@link ReferencesEditor}, for those who may only look. */
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
  /** As it was when the changes began. */
  base: Environment;
  staged: Environment;
  lines: Record<"Added" | "Changed" | "Removed", string[]>;
  hasNewReferences: boolean;
  /** There were values, and none is left. */
  isEmptied: boolean;
  onDiscard: () => void;
  onDeployed: (deployed: Environment) => void;
}

/** What deploying the gathered changes will do, and the way to it; nothing while there are none. */
function StagedChanges(props: StagedProps) {
  const { deployment, staged, isEmptied } = props;
  const lines = Object.entries(props.lines).filter(([, names]) => names.length > 0);
  const body = { secrets: staged.secrets, ...(props.hasNewReferences && { secret_references: staged.references }) };
  const deploy = useDeploy(props);
  if (lines.length === 0) return null;
  const problem = problemOf(staged, deployment.source);
  const hidden = { ...body, secrets: staged.secrets.map(({ name }) => ({ name, value: "…" })) };
  const input = { deployment_id: deployment.id, body: hidden };
  const cli = props.hasNewReferences ? {} : { cli: `npx pierhead env import ${deployment.id} .env` };
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
        {deployment.source === "github" ? "It takes the newest commit of its branch; " : "Its source stays as it is; "}
        what was built before is not built again. The one that serves goes on until the new one is healthy.
      </p>
      {problem !== null && <p className="bad-text">{problem}</p>}
      {isEmptied && (
        <p className="soft">The API leaves an empty list of variables as it was: at least one has to stay.</p>
      )}
      <div className="row">
        <button type="button" onClick={props.onDiscard}>
          Discard
        </button>
        <button
          type="button"
          className="primary"
          disabled={problem !== null || isEmptied || deploy.isPending}
          onClick={() => deploy.mutate()}
        >
          Deploy these changes
        </button>
        <CopyAs call={{ id: "createRevision", input, ...cli }} />
      </div>
    </section>
  );
}

function useDeploy({ deployment, base, staged, hasNewReferences, onDeployed }: StagedProps) {
  const { client } = useSession();
  const { say, fail } = useToasts();
  const navigate = useNavigate();
  return useMutation({
    // The API takes the variables as a whole: what others changed since this page was opened goes along.
    mutationFn: () =>
      client.changeAsRead({ deployment_id: deployment.id }, async (now, call) => {
        const next = rebased({ secrets: now.secrets, references: now.secret_references ?? [] }, base, staged);
        if (next.secrets.length === 0 && now.secrets.length > 0) throw new Error("At least one variable has to stay.");
        const body = { secrets: next.secrets, ...(hasNewReferences && { secret_references: next.references }) };
        await client.createRevision({ deployment_id: deployment.id, body }, call);
        return next;
      }),
    onError: fail,
    onSuccess: (deployed) => {
      onDeployed(deployed);
      say("A revision with the new environment was made.");
      void queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
      void navigate({
        to: "/o/$tenantId/host/deployments/$id",
        params: { tenantId: deployment.tenant_id, id: deployment.id },
      });
    },
  });
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
