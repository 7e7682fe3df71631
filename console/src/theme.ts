/** The colours that the user chose in this browser. Without a choice, the console follows the system. */
const themeKey = "pierhead.theme";

export type Theme = "light" | "dark";

/** Applies the stored choice. Must run before the first paint. */
export function applyTheme(): void {
  const chosen = localStorage.getItem(themeKey);
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset["theme"] = chosen;
}

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function chooseTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  localStorage.setItem(themeKey, theme);
  for (const listener of listeners) listener();
}

const listeners = new Set<() => void>();

/** Calls `listener` when the user chooses colours. Returns a function that ends this. */
export function onThemeChoice(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
