/** Names of variables that bundlers write into the code for browsers, whose values are no secrets. */
export const publicName = /^(?:NEXT_PUBLIC|VITE|PUBLIC|NUXT_PUBLIC|REACT_APP|EXPO_PUBLIC|GATSBY)_\w+$/;

/** Returns the variables of a deployment that a build needs: those that it writes into the code for browsers. */
export function publicVariables(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values)
      .filter(([name]) => publicName.test(name))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );
}
