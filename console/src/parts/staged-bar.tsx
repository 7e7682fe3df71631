import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronDown, Undo2 } from "lucide-react";
import { useState } from "react";
import type { Deployment, Secret } from "../../../src/contract/deployments/deployment.ts";
import type { ChangeVariables } from "../../../src/contract/revisions/run-again.ts";
import { checkOneOrigin, checkSecretReferences, checkVariableNames } from "../../../src/domain/secret-names.ts";
import { type Environment, mergeChanges } from "../environment.ts";
import { problemFrom, queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { CopyAs } from "./copy-as.tsx";
import { useToasts } from "./toasts.tsx";

interface StagedProps {
  deployment: Deployment;
  /** The environment when the changes began. */
  base: Environment;
  staged: Environment;
  lines: Record<"Added" | "Changed" | "Removed", string[]>;
  hasNewReferences: boolean;
  /** The changes of variables alone. */
  changes: ChangeVariables;
  /** Whether the user removed the last of the variables in a change for which the API ignores an empty list. */
  isEmptied: boolean;
  onDiscard: () => void;
  /** Takes back the change of one variable. */
  onUndo: (name: string) => void;
  onDeployed: (deployed: Environment) => void;
}

/** The collected changes, what deploying them does, and the buttons to deploy or discard them. Empty without changes. */
export function StagedChanges(props: StagedProps) {
  const { deployment, staged, isEmptied } = props;
  // On a phone the bar is short until the user asks for the rest.
  const [isOpen, setOpen] = useState(false);
  const lines = Object.entries(props.lines).filter(([, names]) => names.length > 0);
  const deploy = useDeploy(props);
  if (lines.length === 0) return null;
  const count = lines.flatMap(([, names]) => names).length;
  const problem = problemOf(staged, deployment.source);
  return (
    <section className={isOpen ? "note staged open" : "note staged"} aria-label="Staged changes">
      <p className="staged-what">
        <b>
          {count} {count === 1 ? "change" : "changes"}, not deployed yet
        </b>
        <button type="button" className="quiet staged-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Details <ChevronDown size={14} />
        </button>
        {lines.map(([word, names]) => (
          <ChangedNames key={word} word={word} names={names} onUndo={props.onUndo} />
        ))}
      </p>
      <p className="softer staged-why">
        Deploying runs{" "}
        {isAskedFor(deployment, props.changes) ? "the code that failed without them" : "the current code"} with these
        variables. Nothing is built, unless a variable for browsers changed (<code>NEXT_PUBLIC_*</code>).{" "}
        <WillRestart deployment={deployment} />
      </p>
      {problem !== null && <p className="bad-text">{problem}</p>}
      {isEmptied && <p className="soft">Keep at least one variable, because the API ignores an empty list.</p>}
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
        <CopyAs call={callOf(props)} />
      </div>
    </section>
  );
}

/** The names of one kind of changes. A click on a name takes its change back. */
function ChangedNames({ word, names, onUndo }: { word: string; names: string[]; onUndo: (name: string) => void }) {
  return (
    <span>
      {word}:{" "}
      {names.map((name) => (
        <button
          key={name}
          type="button"
          className="quiet undo"
          aria-label={`Undo the change of ${name}`}
          title="Undo this change"
          onClick={() => onUndo(name)}
        >
          <code>{name}</code> <Undo2 size={12} />
        </button>
      ))}
    </span>
  );
}

/** Returns the call that deploys the changes, without values. */
function callOf({ deployment: { id: deployment_id }, staged, changes, hasNewReferences }: StagedProps) {
  const hidden = ({ name }: Secret) => ({ name, value: "…" });
  if (hasNewReferences) {
    const body = { secrets: staged.secrets.map(hidden), secret_references: staged.references };
    return { id: "createRevision" as const, input: { deployment_id, body } };
  }
  return {
    id: "changeVariables" as const,
    input: { deployment_id, body: { ...changes, set: changes.set?.map(hidden) } },
    cli: `npx pierhead env import ${deployment_id} .env`,
  };
}

/** Returns the server's reason to reject this environment, or null if it is valid. */
function problemOf({ secrets, references }: Environment, source: Deployment["source"]): string | null {
  // An empty row is not a variable.
  const named = secrets.filter(({ name }) => name !== "");
  if (secrets.some(({ name, value }) => name === "" && value !== "")) return "A value has no name.";
  const names = named.map(({ name }) => name);
  return problemFrom(() => {
    checkSecretReferences(references, source);
    checkOneOrigin(names, references);
    checkVariableNames(named, source);
  });
}

/** Whether the newest revision failed because variables were missing that are set now. Its code runs then. */
const isAskedFor = ({ health }: Deployment, { set }: ChangeVariables) =>
  health.failure?.code === "variables_missing" &&
  (set ?? []).some(({ name }) => health.failure?.variables.includes(name) === true);

/** Says what a deploy of the changes restarts. */
function WillRestart({ deployment: { active_revision_id: active, name } }: { deployment: Deployment }) {
  if (active === null) return <>No replica runs yet, so nothing restarts.</>;
  return (
    <>
      New replicas of {name} start, and the current revision serves until they are healthy. No other deployment
      restarts.
    </>
  );
}

function useDeploy({ deployment, base, staged, changes, hasNewReferences, onDeployed }: StagedProps) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: async () => {
      if (!hasNewReferences) {
        const changed = await client.changeVariables({ deployment_id: deployment.id, body: changes });
        return { secrets: changed.secrets, references: changed.secret_references ?? [] };
      }
      // This call replaces the whole list of variables, so changes of other users since the page was opened are merged.
      return client.changeAsRead({ deployment_id: deployment.id }, async (now, call) => {
        const next = mergeChanges({ secrets: now.secrets, references: now.secret_references ?? [] }, base, staged);
        if (next.secrets.length === 0 && now.secrets.length > 0)
          throw new Error("Keep at least one variable, because the API ignores an empty list.");
        const body = {
          secrets: next.secrets.filter(({ name }) => name !== ""),
          ...(hasNewReferences && { secret_references: next.references }),
        };
        await client.createRevision({ deployment_id: deployment.id, body }, call);
        return next;
      });
    },
    onError: notifyError,
    onSuccess: (deployed) => {
      onDeployed(deployed);
      notify("Deploying the changed variables.");
      void queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
      void navigate({
        to: "/o/$tenantId/host/deployments/$id/$part",
        params: { tenantId: deployment.tenant_id, id: deployment.id, part: "revisions" },
      });
    },
  });
}
