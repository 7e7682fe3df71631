import type { SecretReference } from "../../../src/contract/deployments/deployment.ts";

const columns = { name: "Variable", secret_name: "Secret", secret_key: "Key" } as const;
type Column = keyof typeof columns;
const isColumn = (name: string): name is Column => name in columns;

interface Props {
  references: SecretReference[];
  onChange: (references: SecretReference[]) => void;
}

/** The variables that Kubernetes Secrets provide. The cluster keeps their values, and this server never reads them. */
export function ReferencesEditor({ references, onChange }: Props) {
  const set = (index: number, column: Column, value: string) =>
    onChange(references.map((one, at) => (at === index ? { ...one, [column]: value } : one)));
  return (
    <section aria-label="From Kubernetes Secrets">
      <h2>From Kubernetes Secrets</h2>
      <table aria-label="Variables from Secrets" className="variables">
        <thead>
          <tr>
            {Object.values(columns).map((title) => (
              <th key={title}>{title}</th>
            ))}
            <td />
          </tr>
        </thead>
        <tbody>
          {references.map((reference, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: names change while they are typed; rows have no other identity.
            <tr key={index}>
              {Object.keys(columns)
                .filter(isColumn)
                .map((column) => (
                  <td key={column}>
                    <input
                      aria-label={`${columns[column]} of reference ${index + 1}`}
                      autoComplete="off"
                      value={reference[column]}
                      onChange={(event) => set(index, column, event.target.value)}
                    />
                  </td>
                ))}
              <td>
                <button
                  type="button"
                  aria-label={`Remove reference ${reference.name || index + 1}`}
                  onClick={() => onChange(references.filter((_, at) => at !== index))}
                >
                  Remove
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <button type="button" onClick={() => onChange([...references, { name: "", secret_name: "", secret_key: "" }])}>
        Add a reference
      </button>
    </section>
  );
}
