import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { VariableGroup } from "../../../src/contract/variables/variable-group.ts";
import { gathered } from "../gathered.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { CopyAs } from "./copy-as.tsx";
import { IconButton } from "./icon-button.tsx";
import { Failure } from "./notices.tsx";
import { useToasts } from "./toasts.tsx";

/** The variable groups that a deployment uses. Hidden while the workspace has none. */
export function SharedGroups({ deployment }: { deployment: Deployment }) {
  const { client, workspaceId, mayChange } = useSession();
  const [chosen, setChosen] = useState<string[] | null>(null);
  const groups = useQuery({
    queryKey: ["variable-groups", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listVariableGroups", {}, { signal })),
  });
  const used = useQuery({
    queryKey: ["deployment", deployment.id, "variable-groups", deployment.latest_revision_id],
    queryFn: ({ signal }) => client.getDeploymentVariableGroups({ deployment_id: deployment.id }, { signal }),
  });
  const error = groups.error ?? used.error;
  if (error !== null) return <Failure error={error} retry={() => void groups.refetch().then(() => used.refetch())} />;
  if (groups.data === undefined || used.data === undefined) return null;
  const before = used.data.groups.map(({ id }) => id);
  const ids = chosen ?? before;
  const byId = new Map(groups.data.map((group) => [group.id, group]));
  const shown = ids.flatMap((id) => byId.get(id) ?? []);
  const others = groups.data.filter(({ id }) => !ids.includes(id));
  const isStale = shown.some((group) => !isCurrent(group, deployment));
  const isChanged = ids.join() !== before.join();
  return (
    <section className="card" aria-label="Variable groups">
      <h2>Variable groups</h2>
      <p className="soft">
        {groups.data.length === 0
          ? "Variables that several deployments share live in groups of the workspace."
          : "Variables shared with other deployments. Variables above win over those of a group."}{" "}
        <Link to="/host/$page" params={{ page: "variable-groups" }}>
          {mayChange ? "Edit the groups" : "All groups"}
        </Link>
      </p>
      {shown.length > 0 && (
        <ul className="shared-groups">
          {shown.map((group) => (
            <li key={group.id} className="row">
              <b>{group.name}</b>
              <span className="group-names">
                {group.variables.map(({ name }) => (
                  <code key={name}>{name}</code>
                ))}
              </span>
              {!isCurrent(group, deployment) && <span className="mark-text">not deployed</span>}
              {mayChange && (
                <IconButton
                  name={`Remove ${group.name}`}
                  icon={<Trash2 size={15} />}
                  onClick={() => setChosen(ids.filter((id) => id !== group.id))}
                />
              )}
            </li>
          ))}
        </ul>
      )}
      {mayChange && others.length > 0 && (
        <select
          aria-label="Add a variable group"
          value=""
          onChange={(event) => setChosen([...ids, event.target.value])}
        >
          <option value="">Add a group …</option>
          {others.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      )}
      {mayChange && (isChanged || (isStale && deployment.latest_revision_id !== null)) && (
        <DeployGroups deployment={deployment} ids={ids} isChanged={isChanged} onReset={() => setChosen(null)} />
      )}
    </section>
  );
}

const isCurrent = ({ deployments }: VariableGroup, { id }: Deployment) =>
  deployments.some((one) => one.id === id && one.is_current);

function DeployGroups(props: { deployment: Deployment; ids: string[]; isChanged: boolean; onReset: () => void }) {
  const { deployment, ids, isChanged, onReset } = props;
  const { client, workspaceId } = useSession();
  const { notify, notifyError } = useToasts();
  const input = { deployment_id: deployment.id, body: { variable_group_ids: ids } };
  const save = useMutation({
    mutationFn: () => client.putDeploymentVariableGroups(input),
    onError: notifyError,
    onSuccess: async () => {
      notify(`Deploying ${deployment.name} with the variables of its groups.`);
      await queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
      await queries.invalidateQueries({ queryKey: ["variable-groups", workspaceId] });
      onReset();
    },
  });
  return (
    <div className="note staged">
      <b>Not deployed yet</b>
      <p>
        Deploying runs the current code with the variables of these groups. Nothing is built, unless a variable for
        browsers changes (<code>NEXT_PUBLIC_*</code>).
      </p>
      <div className="row">
        {isChanged && (
          <button type="button" onClick={onReset}>
            Discard
          </button>
        )}
        <button type="button" className="primary" disabled={save.isPending} onClick={() => save.mutate()}>
          Deploy with these groups
        </button>
        <CopyAs call={{ id: "putDeploymentVariableGroups", input }} />
      </div>
    </div>
  );
}
