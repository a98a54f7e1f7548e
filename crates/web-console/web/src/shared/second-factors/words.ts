// Texts of factors that the API does not have.

/** A name that no other factor has, ignoring case. */
export function freeName(base: string, names: string[]): string {
  const used = new Set(names.map((name) => name.toLowerCase()))
  let name = base
  for (let number = 2; used.has(name.toLowerCase()); number++) name = `${base} ${number}`
  return name
}

/** The secret in groups of four characters, for readers. */
export const grouped = (secret: string): string => secret.replace(/.{4}(?=.)/g, '$& ')
