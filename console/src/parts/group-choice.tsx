import { useQuery } from "@tanstack/react-query";
import type { VariableGroup } from "../../../src/contract/variables/variable-group.ts";
import { gathered } from "../gathered.ts";
import { useSession } from "../session.tsx";

/** Returns the variable groups of the workspace. undefined: not read yet. */
export function useGroups(): VariableGroup[] | undefined {
  const { client, workspaceId } = useSession();
  return useQuery({
    queryKey: ["variable-groups", workspaceId],
    queryFn: ({ signal }) => gathered(client.all("listVariableGroups", {}, { signal })),
  }).data;
}

/** Returns the name of the chosen group that gives a deployment this variable. The last one wins. */
export const groupOf = (groups: readonly VariableGroup[], ids: readonly string[], variable: string) =>
  ids
    .flatMap((id) => groups.find((group) => group.id === id) ?? [])
    .findLast(({ variables }) => variables.some(({ name }) => name === variable))?.name;

interface Props {
  groups: readonly VariableGroup[];
  ids: readonly string[];
  onChange: (ids: string[]) => void;
}

/** Chooses the groups of a new deployment, in the order of the choices. Hidden while the workspace has none. */
export function GroupChoice({ groups, ids, onChange }: Props) {
  if (groups.length === 0) return null;
  return (
    <fieldset className="group-choice">
      <legend>From variable groups</legend>
      {groups.map(({ id, name, variables }) => (
        <label key={id} className="row">
          <input
            type="checkbox"
            checked={ids.includes(id)}
            onChange={({ target }) => onChange(target.checked ? [...ids, id] : ids.filter((one) => one !== id))}
          />
          <b>{name}</b>
          <span className="group-names">
            {variables.map((variable) => (
              <code key={variable.name}>{variable.name}</code>
            ))}
          </span>
        </label>
      ))}
    </fieldset>
  );
}
