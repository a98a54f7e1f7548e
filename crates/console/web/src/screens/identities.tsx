import type { Instance } from '../api/shapes.ts'
import { Ended } from '../generic/ended.tsx'

const nameOf = ({ single_sign_on, issuer }: Instance) =>
  `${(single_sign_on as { name?: string } | null)?.name ?? issuer}`

/** Sign-ins at providers that are linked to an account. */
export const Identities = ({ path }: { path: string }) => (
  <Ended title="identities" path={path} nameOf={nameOf} action="remove" question="identities.question">
    {nameOf}
  </Ended>
)
