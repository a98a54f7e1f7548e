import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { page, wrote } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Instance } from '../api/shapes.ts'
import { AskFirst } from '../generic/ask-first.tsx'
import look from '../generic/generic.module.css'
import { Button } from '../kit/buttons.tsx'
import { say } from '../kit/toasts.tsx'
import { Moment } from '../kit/values.tsx'
import { t } from '../texts.ts'

const providerOf = ({ single_sign_on, issuer }: Instance) =>
  `${(single_sign_on as { name?: string } | null)?.name ?? issuer}`

/** Sign-ins at providers that are linked to an account; nothing where there are none, or where the caller may not see them. */
export function Identities({ path }: { path: string }) {
  const { data } = useQuery(page(path, 'limit=100'))
  const [asked, setAsked] = useState<Instance | undefined>()
  if (!data || data.results.length === 0) return null
  const remove = async ({ id }: Instance) => {
    await call('DELETE', `${path}${id}/`)
    setAsked(undefined)
    say(t('identities.removed'))
    await wrote(path)
  }
  return (
    <section className={look.section}>
      <h2>{t('identities')}</h2>
      <ul className={look.plain}>
        {data.results.map((one) => (
          <li key={`${one.id}`} className={look.member}>
            <span className={look.session}>
              <span>{providerOf(one)}</span>
              <span className={look.when}>
                {`${t(one.is_linked ? 'identities.linked' : 'identities.bound')} · `}
                <Moment value={`${one.created_at}`} />
              </span>
            </span>
            <Button look="quiet" aria-label={t('remove-one', { name: providerOf(one) })} onPress={() => setAsked(one)}>
              {t('remove')}
            </Button>
          </li>
        ))}
      </ul>
      {asked && (
        <AskFirst
          title={t('remove-one', { name: providerOf(asked) })}
          text={t('identities.removes')}
          action={t('remove')}
          run={() => remove(asked)}
          onClose={() => setAsked(undefined)}
        />
      )}
    </section>
  )
}
