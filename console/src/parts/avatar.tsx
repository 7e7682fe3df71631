const initialsOf = (name: string) =>
  name
    .split(/[\s._@-]+/)
    .slice(0, 2)
    .map((word) => word.charAt(0).toUpperCase())
    .join("");

/** The initials of a name: round for people, square for keys and for Pierhead itself. The name stands beside it. */
export function Avatar({ name, isPerson = true }: { name: string; isPerson?: boolean }) {
  return (
    <span className={`avatar ${isPerson ? "" : "square"}`} aria-hidden="true">
      {initialsOf(name)}
    </span>
  );
}
