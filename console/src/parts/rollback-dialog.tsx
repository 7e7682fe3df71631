import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import type { RollbackPreview } from "../../../src/contract/revisions/run-again.ts";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { ChangedFields } from "./changed-fields.tsx";
import { Dialog } from "./dialog.tsx";
import { Tabs } from "./fields.tsx";
import { Failure } from "./notices.tsx";
import { numberText, titleOf } from "./revision-words.tsx";
import { Ago } from "./time.tsx";
import type { Deployment } from "./words.ts";

interface Props {
  deployment: Deployment;
  revision: Revision;
  onClose: () => void;
  onDone: () => void;
}

/** Says what a rollback changes before it happens. The user chooses whether variables and size go back too. */
export function RollbackDialog({ deployment, revision, onClose, onDone }: Props) {
  const { client } = useSession();
  const [what, setWhat] = useState<"all" | "code">("all");
  const input = { deployment_id: deployment.id, revision_id: revision.id };
  const code_only = what === "code";
  const preview = useQuery({
    queryKey: ["deployment", deployment.id, "rollback", revision.id, what],
    // The rollback refuses if the deployment has changed since, because this list would then be wrong.
    queryFn: async ({ signal }) => {
      const read = await client.getDeployment({ deployment_id: deployment.id }, { signal });
      return { read, changes: await client.previewRollback({ ...input, code_only }, { signal }) };
    },
    placeholderData: keepPreviousData,
  });
  const rollback = useMutation({
    mutationFn: (ifUnchanged: Deployment) =>
      client.rollbackRevision({ ...input, body: { code_only } }, { ifUnchanged }),
    onSuccess: onDone,
    onError: () => void preview.refetch(),
  });
  const number = numberText(revision);
  return (
    <Dialog title={`Roll back to revision ${number}?`} onClose={onClose}>
      <p>
        {titleOf(revision)}{" "}
        <span className="softer">
          deployed <Ago at={revision.created_at} />
        </span>
      </p>
      <Tabs
        label="What goes back"
        value={what}
        onValue={setWhat}
        options={[
          { value: "all", text: "Code, variables and size" },
          { value: "code", text: "Code only" },
        ]}
      />
      {preview.isError && <Failure error={preview.error} retry={() => void preview.refetch()} />}
      {preview.data !== undefined && <Changes preview={preview.data.changes} number={number} />}
      {rollback.isError && (
        <p role="alert" className="bad-text">
          {textOf(rollback.error)}
        </p>
      )}
      <div className="row end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          className="primary"
          disabled={rollback.isPending || !preview.isSuccess || preview.isPlaceholderData}
          onClick={() => preview.data !== undefined && rollback.mutate(preview.data.read)}
        >
          Roll back to {number}
        </button>
      </div>
    </Dialog>
  );
}

function Changes({ preview, number }: { preview: RollbackPreview; number: string }) {
  const { from, changes, variables, needs_build: needsBuild } = preview;
  const named = Object.entries({ Adds: variables.added, Changes: variables.changed, Removes: variables.removed });
  return (
    <>
      <p className="soft">
        {from !== null && `Revision ${numberText(from)} serves until ${number} is healthy. `}
        {needsBuild ? "The source is built again, because its build is no longer stored." : "Nothing is built."}
      </p>
      {changes.length > 0 && (
        <ChangedFields
          before="Now"
          changes={changes.map(({ field, ...values }) => ({ name: field.split(".").at(-1) ?? field, ...values }))}
        />
      )}
      <ul>
        {named
          .filter(([, names]) => names.length > 0)
          .map(([word, names]) => (
            <li key={word}>
              {word} variables: <code>{names.join(", ")}</code>
            </li>
          ))}
      </ul>
      {changes.length === 0 && named.every(([, names]) => names.length === 0) && <p>Nothing changes.</p>}
    </>
  );
}
