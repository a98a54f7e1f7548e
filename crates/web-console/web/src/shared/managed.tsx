import { useQuery } from '@tanstack/react-query'
import { page } from '../api/query.ts'
import type { PanelProps } from '../generic/resource.ts'
import css from '../kit/controls.module.css'
import { type Key, t } from '../texts.ts'

/** The notice that a directory manages an account or a group, and may change it again. */
function Managed({ list, id, text }: { list: string; id: number; text: Key }) {
  const { data } = useQuery(page(list, `id=${id}&is_provisioned=true&limit=1`))
  if (!data?.results.length) return null
  return (
    <div className={css.notice}>
      <p>{t(text)}</p>
    </div>
  )
}

export function ManagedUser({ instance: { id, account_type: type } }: PanelProps) {
  if (type !== 'internal' && type !== 'external') return null
  return <Managed list="/api/users/" id={Number(id)} text="provisioning.user" />
}

export const ManagedGroup = ({ instance: { id } }: PanelProps) => (
  <Managed list="/api/user-groups/" id={Number(id)} text="provisioning.group" />
)
