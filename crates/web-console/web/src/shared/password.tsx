import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { call, Refusal } from '../api/request.ts'
import type { Fields } from '../api/shapes.ts'
import { messages as messagesOf } from '../generic/changes.ts'
import { Failure } from '../generic/failure.tsx'
import look from '../generic/generic.module.css'
import { Button } from '../kit/buttons.tsx'
import { ForWhom, TextField } from '../kit/fields.tsx'
import { MessagesContext } from '../kit/messages.ts'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { RuleList } from './rule-list.tsx'

/** The rules for passwords. Anonymous requests may read them. */
const RULES = {
  queryKey: ['/api/security/', 'public'],
  queryFn: async () => (await call<Fields>('GET', '/api/security/', { isPublic: true })).data,
  staleTime: 60_000,
}

/** Changes one's own password. */
export function Password({ onChanged }: { onChanged?: () => void }) {
  const [current, setCurrent] = useState('')
  const [chosen, setChosen] = useState('')
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const rules = useQuery(RULES)
  const change = async () => {
    setIsBusy(true)
    await call('POST', '/api/auth/password-change/', {
      body: { current_password: current, new_password: chosen },
    }).then(() => {
      setCurrent('')
      setChosen('')
      setError(undefined)
      say(t('password.changed'))
      onChanged?.()
    }, setError)
    setIsBusy(false)
  }
  const refused = error instanceof Refusal && error.status === 400
  return (
    <MessagesContext value={refused ? messagesOf(error.body) : {}}>
      <form
        className={look.section}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void change()
        }}
      >
        <h2>{t('password')}</h2>
        <ForWhom />
        {error !== undefined && (!refused || messagesOf(error.body)['']) && <Failure error={error} />}
        <TextField
          name="current_password"
          label={t('password.current')}
          type="password"
          isRequired
          value={current}
          onChange={setCurrent}
          autoComplete="current-password"
        />
        <TextField
          name="new_password"
          label={t('password.new')}
          type="password"
          isRequired
          value={chosen}
          onChange={setChosen}
          autoComplete="new-password"
        />
        {rules.data && <RuleList password={chosen} rules={rules.data} />}
        <div>
          <Button type="submit" isDisabled={isBusy || !current || !chosen}>
            {t('password.change')}
          </Button>
        </div>
      </form>
    </MessagesContext>
  )
}
