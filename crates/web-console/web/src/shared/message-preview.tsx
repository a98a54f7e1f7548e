import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { call } from '../api/request.ts'
import { session } from '../api/session.ts'
import type { MessagePreview as Preview } from '../api/shapes.ts'
import { Reading } from '../generic/failure.tsx'
import look from '../generic/generic.module.css'
import { Select } from '../kit/fields.tsx'
import { type Key, t } from '../texts.ts'

const MESSAGES = ['activation', 'reset', 'test', 'reminder', 'task_link']

/** The preview of messages, for users who may view the company details at their end. */
export function MessagePreview() {
  const [name, setName] = useState('activation')
  const isAllowed = session()?.permissions?.company_details?.view === true
  const preview = useQuery({
    queryKey: ['/api/administration/messages/preview/', name],
    queryFn: async () =>
      (
        await call<Preview>('POST', '/api/administration/messages/preview/', {
          body: { name },
        })
      ).data,
    enabled: isAllowed,
  })
  if (!isAllowed) return null
  return (
    <section className={look.section}>
      <h2>{t('company.messages')}</h2>
      <Select
        name="message"
        label={t('company.message')}
        isRequired
        value={name}
        choices={MESSAGES.map((value) => ({ value, text: t(`message.${value}` as Key) }))}
        onChange={(value) => setName(`${value ?? name}`)}
      />
      <Reading of={[preview]} />
      {preview.data && (
        <article className={look.letter}>
          <h3>{preview.data.subject}</h3>
          <p className={look.written}>{preview.data.text}</p>
        </article>
      )}
    </section>
  )
}
