/** The mark of Pierhead: a P whose stem is a harbour tower and whose bowl is its lamp. */
export function Mark({ size = 26 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7.5" className="mark-ground" />
      <path d="M8 5.4h4.4v16.2H8z" className="mark-figure" />
      <path d="M14 5.4h3.8a6.5 6.5 0 0 1 0 13H14z" className="mark-lamp" />
      <rect x="4.8" y="23.1" width="22.4" height="3.5" rx="1.1" className="mark-figure" />
    </svg>
  );
}
