import { useQuery } from '@tanstack/react-query'
import { page } from '../../api/query.ts'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Matrix, MatrixView } from '../../generic/matrix.tsx'
import type { PanelProps, Parts } from '../../generic/resource.ts'
import { t } from '../../texts.ts'

/** The people who have a role. */
function WhoHas({ instance }: PanelProps) {
  // `roles` alone finds only users with this role and no other.
  const filter = `roles__in=${instance.id}`
  const { data } = useQuery(page('/api/users/', `${filter}&limit=25`))
  if (!data) return null
  return (
    <section className={look.section}>
      <h2>{t('roles.who')}</h2>
      {data.results.length === 0 && <p className={look.none}>{t('roles.nobody')}</p>}
      <ul className={look.plain}>
        {data.results.map((user) => (
          <li key={`${user.id}`}>
            <Link to={`/admin/users/${user.id}`}>{`${user.full_name || user.username}`}</Link>
          </li>
        ))}
      </ul>
      {data.next && <Link to={`/admin/users?${filter}`}>{t('show-all', { count: data.filtered_count ?? 0 })}</Link>}
    </section>
  )
}

export const parts: Parts = { inputs: { permissions: Matrix }, views: { permissions: MatrixView }, panels: [WhoHas] }
