import { useQuery } from '@tanstack/react-query'
import { page, wrote } from '../api/query.ts'
import { call } from '../api/request.ts'
import look from '../generic/generic.module.css'
import { Button } from '../kit/buttons.tsx'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'

/** Sign-ins at providers that are linked to an account; nothing where there are none, or where the caller may not see them. */
export function Identities({ path }: { path: string }) {
  const { data } = useQuery(page(path, 'limit=100'))
  if (!data || data.results.length === 0) return null
  const remove = async (id: unknown) => {
    await call('DELETE', `${path}${id}/`).catch((error: Error) => say(error.message))
    await wrote(path)
  }
  return (
    <section className={look.section}>
      <h2>{t('identities')}</h2>
      <ul className={look.plain}>
        {data.results.map((one) => (
          <li key={`${one.id}`} className={look.member}>
            <span>{`${(one.single_sign_on as { name?: string } | null)?.name ?? one.issuer}`}</span>
            <Button look="quiet" onPress={() => void remove(one.id)}>
              {t('remove')}
            </Button>
          </li>
        ))}
      </ul>
    </section>
  )
}
