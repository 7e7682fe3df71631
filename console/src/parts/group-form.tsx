import { Plus, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import type { Secret } from "../../../src/contract/deployments/deployment.ts";
import type {
  GroupVariable,
  PatchVariableGroup,
  VariableGroup,
} from "../../../src/contract/variables/variable-group.ts";
import { useSession } from "../session.tsx";
import { TextField } from "./fields.tsx";
import { IconButton } from "./icon-button.tsx";
import { PasteVariables } from "./raw-variables.tsx";
import { ActionButton, FormDialog } from "./resource-page.tsx";
import { variablesProblem } from "./variables-editor.tsx";

interface Row {
  name: string;
  /** null: a stored secret, which stays as it is. */
  value: string | null;
  isSecret: boolean;
  isStored: boolean;
}

/** A dialog that creates a group, or changes one. After a change it offers to deploy the deployments that use the group. */
export function GroupForm({ group }: { group?: VariableGroup }) {
  const { client, workspaceId } = useSession();
  const [name, setName] = useState(group?.name ?? "");
  const [rows, setRows] = useState<Row[]>(() => group?.variables.map(rowOf) ?? [newRow]);
  const version = group?.version;
  // Starts again from what is stored, after a change here or elsewhere.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version stands for the variables of the group.
  useEffect(() => setRows(group?.variables.map(rowOf) ?? [newRow]), [version]);
  const given = rows.filter((row) => row.name !== "" || (row.value ?? "") !== "");
  const problem = variablesProblem(given.map(asSecret), "github");
  const create = { name: name.trim(), variables: given.map(asSent) };
  const patch = group === undefined ? {} : changesOf(group, name.trim(), given);
  const isChanged = Object.keys(patch).length > 0;
  const emptied = (made: VariableGroup) => {
    setName("");
    setRows([newRow]);
    return made;
  };
  const call =
    group === undefined
      ? { id: "createVariableGroup" as const, input: { body: hiding(create) } }
      : { id: "patchVariableGroup" as const, input: { variable_group_id: group.id, body: hiding(patch) } };
  return (
    <FormDialog
      open={group === undefined ? "New group" : "Edit"}
      {...(group !== undefined && { label: `Edit ${group.name}`, isQuiet: true })}
      title={group === undefined ? "New variable group" : `Edit ${group.name}`}
      submit={group === undefined ? "Create" : "Save"}
      isReady={name.trim() !== "" && problem === null && (group === undefined || isChanged)}
      call={call}
      send={() =>
        group === undefined
          ? client.createVariableGroup({ body: create }).then(emptied)
          : client.patchVariableGroup({ variable_group_id: group.id, body: patch })
      }
      renews={["variable-groups", workspaceId]}
      result={(saved, close) => (staleOf(saved).length === 0 ? null : <DeployUsers group={saved} onDone={close} />)}
    >
      <TextField label="Name" value={name} onValue={setName} placeholder="model-keys" />
      <Rows rows={rows} onRows={setRows} />
      {problem !== null && <p className="bad-text">{problem}</p>}
      <PasteVariables
        variables={rows.map(asSecret)}
        source="github"
        onChange={(pasted) => setRows(pasted.map((one) => mergedRow(rows, one)))}
      />
    </FormDialog>
  );
}

const newRow: Row = { name: "", value: "", isSecret: true, isStored: false };

const rowOf = ({ name, value, is_secret }: VariableGroup["variables"][number]): Row => ({
  ...{ name, value, isSecret: is_secret, isStored: true },
});

const asSecret = ({ name, value }: Row): Secret => ({ name, value: value ?? "" });

const asSent = ({ name, value, isSecret }: Row): GroupVariable => ({ name, value: value ?? "", is_secret: isSecret });

/** Keeps a stored row unless the pasted text has a value for it. */
function mergedRow(rows: readonly Row[], { name, value }: Secret): Row {
  const row = rows.find((one) => one.name === name);
  return row !== undefined && asSecret(row).value === value ? row : { ...newRow, ...row, name, value };
}

/** Returns the fields of the change. Absent ones stay. */
function changesOf(group: VariableGroup, name: string, rows: readonly Row[]): PatchVariableGroup {
  const before = new Map(group.variables.map((one) => [one.name, one]));
  const kept = new Set(rows.map((row) => row.name));
  const isSame = (row: Row) => {
    const old = before.get(row.name);
    return old !== undefined && old.value === row.value && old.is_secret === row.isSecret;
  };
  const set = rows.filter((row) => !isSame(row)).map(asSent);
  const remove = group.variables.map((one) => one.name).filter((one) => !kept.has(one));
  return {
    ...(name !== group.name && { name }),
    ...(set.length > 0 && { set }),
    ...(remove.length > 0 && { remove }),
  };
}

function hiding<B extends { variables?: GroupVariable[]; set?: GroupVariable[] | null }>(body: B): B {
  const hidden = (list: GroupVariable[]) => list.map((one) => ({ ...one, value: "…" }));
  return {
    ...body,
    ...(body.variables && { variables: hidden(body.variables) }),
    ...(body.set && { set: hidden(body.set) }),
  };
}

function Rows({ rows, onRows }: { rows: Row[]; onRows: (rows: Row[]) => void }) {
  const change = (index: number, part: Partial<Row>) =>
    onRows(rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  return (
    <>
      {rows.length > 0 && (
        <table className="variables" aria-label="Variables of the group">
          <thead>
            <tr>
              <th>Name</th>
              <th>Value</th>
              <th>Secret</th>
              <th>
                <span className="sr">Remove</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: names change while they are typed; rows have no other identity.
              <tr key={index}>
                <td>
                  <input
                    aria-label={`Name ${index + 1}`}
                    value={row.name}
                    placeholder="NAME"
                    readOnly={row.isStored}
                    autoComplete="off"
                    spellCheck={false}
                    onChange={(event) => change(index, { name: event.target.value })}
                  />
                </td>
                <td>
                  <input
                    aria-label={`Value of ${row.name || index + 1}`}
                    type={row.isSecret ? "password" : "text"}
                    value={row.value ?? ""}
                    placeholder={row.value === null ? "Unchanged" : ""}
                    autoComplete="off"
                    onChange={(event) => change(index, { value: event.target.value })}
                  />
                </td>
                <td>
                  <input
                    type="checkbox"
                    aria-label={`${row.name || `Variable ${index + 1}`} is secret`}
                    checked={row.isSecret}
                    // A stored secret cannot become readable: it needs a new value.
                    disabled={row.value === null}
                    onChange={(event) => change(index, { isSecret: event.target.checked })}
                  />
                </td>
                <td>
                  <IconButton
                    name={`Remove ${row.name || index + 1}`}
                    icon={<Trash2 size={15} />}
                    onClick={() => onRows(rows.filter((_, at) => at !== index))}
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <div className="row">
        <button type="button" onClick={() => onRows([...rows, newRow])}>
          <Plus size={15} /> Add a variable
        </button>
      </div>
    </>
  );
}

/** Returns the deployments that use a group and do not have its current variables. */
export const staleOf = ({ deployments }: VariableGroup) => deployments.filter(({ is_current }) => !is_current);

/** What follows a change: who uses the group, and a button that deploys them. */
function DeployUsers({ group, onDone }: { group: VariableGroup; onDone: () => void }) {
  const stale = staleOf(group);
  return (
    <>
      <p>
        {group.name} is saved. {stale.length === 1 ? "This deployment uses" : "These deployments use"} it and still{" "}
        {stale.length === 1 ? "has" : "have"} the earlier variables:
      </p>
      <ul>
        {stale.map(({ id, name }) => (
          <li key={id}>{name}</li>
        ))}
      </ul>
      <p className="soft">
        Deploying runs their current code with the new variables. Nothing is built, unless a variable for browsers
        changed (<code>NEXT_PUBLIC_*</code>), and the current revisions serve until the new ones are healthy.
      </p>
      <div className="row">
        <DeployNow group={group} onDone={onDone} />
      </div>
    </>
  );
}

/** Deploys every deployment that uses a group and does not have its current variables. */
export function DeployNow({ group, onDone }: { group: VariableGroup; onDone?: () => void }) {
  const { client, workspaceId } = useSession();
  const stale = staleOf(group);
  const deploy = async () => {
    for (const { id } of stale) {
      const at = { deployment_id: id };
      const { groups } = await client.getDeploymentVariableGroups(at);
      await client.putDeploymentVariableGroups({ ...at, body: { variable_group_ids: groups.map((one) => one.id) } });
    }
  };
  if (stale.length === 0) return null;
  return (
    <ActionButton
      text="Deploy now"
      label={`Deploy now: ${stale.map(({ name }) => name).join(", ")} with ${group.name}`}
      act={deploy}
      done={`Deploying ${stale.map(({ name }) => name).join(", ")}.`}
      renews={["variable-groups", workspaceId]}
      {...(onDone !== undefined && { onDone })}
    />
  );
}
