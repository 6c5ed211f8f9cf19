<#
.SYNOPSIS
Checks the deskgrid worker on a real Windows, line by line: "held", "FAILED" or "not tried", and why.

.DESCRIPTION
For an administrator, at the PC itself or over Remote Desktop, in PowerShell 5.1 or newer started as administrator. Install the worker before, by
the package of Windows Installer or `deskgrid worker install`. Without switches it changes nothing but this: it asks you to keep your hands off
for half a minute and then to move the mouse, and it ends the watcher of your session once and starts it again.

The exit code is the number of lines that failed. docs/windows.md says which of them nobody has seen yet.

.EXAMPLE
powershell -ExecutionPolicy Bypass -File windows-check.ps1 -Log C:\msi.log
powershell -ExecutionPolicy Bypass -File windows-check.ps1 -Lock
powershell -ExecutionPolicy Bypass -File windows-check.ps1 -Upgrade C:\deskgrid-worker-0.2.0-windows-x86_64.msi
powershell -ExecutionPolicy Bypass -File windows-check.ps1 -Client C:\deskgrid\deskgrid.exe -Needs label=this-pc
powershell -ExecutionPolicy Bypass -File windows-check.ps1 -Remove
#>
param(
    # The service, which its directories are named after.
    [string] $Service = 'deskgrid',
    # A log of the installer's (msiexec /l*v FILE) to look for the token in.
    [string] $Log,
    # Lock the screen for some seconds. Unlock it afterwards.
    [switch] $Lock,
    # A newer package to install over the worker.
    [string] $Upgrade,
    # A deskgrid.exe whose user has joined the same grid: runs tasks that break their limits. What they need beside memory keeps them on this host.
    [string] $Client,
    [string] $Needs = 'os=windows',
    # Remove the worker at the end, and look for what is left.
    [switch] $Remove
)

Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$Programs = Join-Path $env:ProgramFiles $Service
$State = Join-Path $env:ProgramData $Service
$Watcher = Join-Path $Programs 'deskgrid-watch.exe'
$Run = 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Run'
$Entry = "$Service watcher"
$Source = "$Service-worker"
$script:Failed = 0

function Say([string] $Result, [string] $What, [string] $Why) {
    $line = '{0,-9} {1}' -f $Result, $What
    if ($Why) { $line += ": $Why" }
    Write-Output $line
}

# One line: the block gives nothing or $true where it held, and throws or gives a text where it did not.
function Check([string] $What, [scriptblock] $Block) {
    try { $why = & $Block } catch { $why = $_.Exception.Message }
    if (($null -eq $why) -or ($why -is [bool] -and $why)) { Say 'held' $What; return }
    $script:Failed += 1
    Say 'FAILED' $What "$why"
}

function Skip([string] $What, [string] $Why) { Say 'not tried' $What $Why }

# The program of the worker, and its words for the worker's own commands.
function Ask([string[]] $Words) {
    $small = Join-Path $Programs 'deskgrid-worker.exe'
    if (Test-Path $small) { & $small --dir $State --output json @Words }
    else { & (Join-Path $Programs 'deskgrid.exe') --dir $State --output json worker @Words }
}

function Status { (Ask @('status') | Out-String | ConvertFrom-Json) }
function Sensor([string] $Name) { (Status).sensors | Where-Object { $_.sensor -eq $Name } | Select-Object -First 1 }

# What the watcher sees in this session, asked directly.
function Sees {
    $file = [IO.Path]::GetTempFileName()
    try {
        Start-Process -FilePath $Watcher -ArgumentList '--say' -RedirectStandardOutput $file -Wait -WindowStyle Hidden
        return (Get-Content $file -Raw | ConvertFrom-Json)
    } finally { Remove-Item $file -ErrorAction SilentlyContinue }
}

# Until the block gives something true, for so many seconds at most.
function Within([int] $Seconds, [scriptblock] $Block) {
    $end = (Get-Date).AddSeconds($Seconds)
    while ((Get-Date) -lt $end) {
        if (& $Block) { return $true }
        Start-Sleep -Milliseconds 500
    }
    return $false
}

function Watchers { @(Get-Process -Name deskgrid-watch -ErrorAction SilentlyContinue) }
function Traces([string] $Path) {
    # Keys, and values of keys, below a path of the registry that name the service.
    @(Get-ChildItem $Path -Recurse -ErrorAction SilentlyContinue | Where-Object {
        $_.Name -like "*$Service*" -or ($_.GetValueNames() | Where-Object { "$($_)" -like "*$Service*" })
    })
}

# ---- the service ----------------------------------------------------------------------------------------------------------------------------
Check 'the service is installed and runs' {
    $found = Get-Service -Name $Service
    if ($found.Status -ne 'Running') { "it is $($found.Status); $State\worker.log may say why" }
}
Check 'it starts with the PC, as LocalService' {
    $found = Get-CimInstance Win32_Service -Filter "Name='$Service'"
    if ($found.StartMode -ne 'Auto' -or $found.StartName -notlike '*LocalService') { "$($found.StartMode), $($found.StartName)" }
}
Check 'it is started again after it has failed' {
    $said = (& sc.exe qfailure $Service | Out-String)
    # The words are in the language of the PC, the figures are not: a day, and a minute.
    if ($said -notmatch '86400' -or $said -notmatch '60000') { return "sc.exe says: $said" }
    $flag = (Get-ItemProperty "HKLM:\SYSTEM\CurrentControlSet\Services\$Service").FailureActionsOnNonCrashFailures
    if ($flag -ne 1) { 'not where it ends by itself with an error' }
}
Check 'it is in session 0' {
    $id = (Get-CimInstance Win32_Service -Filter "Name='$Service'").ProcessId
    $session = (Get-Process -Id $id).SessionId
    if ($session -ne 0) { "it is in session $session" }
}
Check 'it answers administrators' { if (-not (Status).host) { 'no host in its answer' } }
Check 'it is connected to the master' { $now = Status; if (-not $now.connected) { "$($now.not_connected_because)" } }

# ---- who may read what ----------------------------------------------------------------------------------------------------------------------
Check 'only the system, administrators and the service get into its directory' {
    $may = 'S-1-5-18', 'S-1-5-32-544', 'S-1-5-19'
    $acl = Get-Acl $State
    if (-not $acl.AreAccessRulesProtected) { return 'it inherits rights from above' }
    $others = $acl.GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier]) | Where-Object { $may -notcontains $_.IdentityReference.Value }
    if ($others) { "also $(($others | ForEach-Object { $_.IdentityReference.Value }) -join ', ')" }
}
Check 'its directory belongs to administrators or the system' {
    $owner = (Get-Acl $State).GetOwner([Security.Principal.SecurityIdentifier]).Value
    if ('S-1-5-18', 'S-1-5-32-544' -notcontains $owner) { "it belongs to ${owner}, who can give themselves every right" }
}
Check 'nothing in its directory belongs to others, or has rules for them' {
    $may = 'S-1-5-18', 'S-1-5-32-544', 'S-1-5-19'
    foreach ($item in Get-ChildItem $State -Recurse -Force) {
        $acl = Get-Acl -LiteralPath $item.FullName
        $owner = $acl.GetOwner([Security.Principal.SecurityIdentifier]).Value
        if ($may -notcontains $owner) { return "$($item.FullName) belongs to $owner" }
        foreach ($rule in $acl.GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier])) {
            # A task that runs in a container may use its own directory.
            if ($rule.IdentityReference.Value -like 'S-1-15-2-*' -and $item.FullName -like "$State\worker\attempts\*") { continue }
            if ($may -notcontains $rule.IdentityReference.Value) { return "$($item.FullName) has a rule for $($rule.IdentityReference.Value)" }
        }
    }
}
Check 'users cannot write where the programs lie' {
    $write = [Security.AccessControl.FileSystemRights]'WriteData, AppendData, Delete, ChangePermissions, TakeOwnership'
    $users = 'S-1-5-32-545', 'S-1-1-0', 'S-1-5-11', 'S-1-5-4'
    $bad = @((Get-Acl $Programs).GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier]) | Where-Object {
        $users -contains $_.IdentityReference.Value -and $_.AccessControlType -eq 'Allow' -and ($_.FileSystemRights -band $write)
    })
    if ($bad) { "$($bad[0].IdentityReference.Value) may" }
}
Check 'the file with the token is gone' { if (Test-Path (Join-Path $State 'join.toml')) { 'join.toml is still there: the PC has not joined' } }
Check 'no token in the registry of the service and of the installer' {
    foreach ($path in "HKLM:\SYSTEM\CurrentControlSet\Services\$Service", 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall', $Run) {
        foreach ($key in @(Get-Item $path) + @(Get-ChildItem $path -Recurse -ErrorAction SilentlyContinue)) {
            foreach ($name in $key.GetValueNames()) {
                if ("$($key.GetValue($name))" -match 'dg1\.') { return "$($key.Name), value $name" }
            }
        }
    }
}
Check 'no token in the files of the service' {
    $found = @(Get-ChildItem $State -Recurse -File -Include '*.log', '*.toml' | Select-String -Pattern 'dg1\.' -List)
    if ($found) { "$($found[0].Path)" }
}
Check 'its start is in the event log, in words' {
    $key = Get-Item "HKLM:\SYSTEM\CurrentControlSet\Services\EventLog\Application\$Source"
    $file = $key.GetValue('EventMessageFile')
    if (-not (Test-Path $file)) { return "there is no $file, which has the form of its words" }
    $start = Get-WinEvent -FilterHashtable @{ LogName = 'Application'; ProviderName = $Source; Id = 1 } -MaxEvents 1
    if ($start.Message -notmatch '^the worker.s service has started') { "the text of the event is: $($start.Message)" }
}
Check 'no token in the event log' {
    $events = Get-WinEvent -FilterHashtable @{ LogName = 'Application'; ProviderName = $Source }
    if ($events | Where-Object { "$($_.Message)" -match 'dg1\.' }) { 'an event has one' }
}
if ($Log) {
    Check "no token in $Log" { if (Select-String -Path $Log -Pattern 'dg1\.' -Quiet) { 'the installer has written it down' } }
} else { Skip 'no token in the log of the installer' 'name one with -Log' }

# ---- the watchers ---------------------------------------------------------------------------------------------------------------------------
Check 'a watcher starts at each logon' {
    $line = (Get-ItemProperty $Run).$Entry
    if ($line -ne "`"$Watcher`"") { "the entry says $line" }
}
Check 'each session of a user has a watcher' {
    $with = Watchers | ForEach-Object { $_.SessionId }
    $people = Get-Process -Name explorer -ErrorAction SilentlyContinue | ForEach-Object { $_.SessionId } | Sort-Object -Unique
    $without = $people | Where-Object { $with -notcontains $_ }
    if ($without) { "not $($without -join ', '): log off and on there" }
}
Check 'no watcher has a window' { $shown = @(Watchers | Where-Object { $_.MainWindowHandle -ne 0 }); if ($shown) { "process $($shown[0].Id)" } }
Check 'no watcher runs as an administrator or the system' {
    foreach ($process in Get-CimInstance Win32_Process -Filter "Name='deskgrid-watch.exe'") {
        $who = Invoke-CimMethod -InputObject $process -MethodName GetOwner
        if ($who.User -in 'SYSTEM', 'LOCAL SERVICE', 'NETWORK SERVICE') { return "process $($process.ProcessId) runs as $($who.User)" }
    }
}
Check 'the service sees input and full screens' {
    foreach ($name in 'input', 'full-screen') {
        $sensor = Sensor $name
        if ($null -eq $sensor) { return "there is no sensor $name" }
        if ($sensor.state -ne 'seen') { return "${name}: $($sensor.sees)" }
    }
}
Check 'the service sees the mains or the battery' { $sensor = Sensor 'power'; if ($sensor.state -ne 'seen') { $sensor.sees } }

Write-Output '          -- please touch neither keyboard nor mouse for half a minute --'
Start-Sleep -Seconds 5
Check 'idle time rises while nobody touches anything' {
    $before = (Sees).idle_ms
    Start-Sleep -Seconds 20
    $after = (Sees).idle_ms
    if ($after - $before -lt 18000) { "from $before to $after ms: was something touched?" }
}
Check 'the service has an idle time, too' {
    $sensor = Sensor 'input'
    if ($sensor.sees -notmatch 'touched anything for') { $sensor.sees }
}
Write-Output '          -- please move the mouse now --'
Check 'a touch is seen' { if (-not (Within 20 { (Sees).idle_ms -lt 1500 })) { 'nothing was touched, or it is not seen' } }

Check 'a watcher that is missing is an owner who is present' {
    $mine = (Get-Process -Id $PID).SessionId
    Watchers | Where-Object { $_.SessionId -eq $mine } | Stop-Process -Force
    if (-not (Within 15 { (Sensor 'input').state -eq 'unknown' })) { "the service sees $((Sensor 'input').sees)" }
}
Check 'a watcher that comes back is believed' {
    Start-Process -FilePath $Watcher
    if (-not (Within 15 { (Sensor 'input').state -eq 'seen' })) { "the service sees $((Sensor 'input').sees)" }
}
Check 'another program that speaks as a watcher is turned away' {
    $name = [IO.Directory]::GetFiles('\\.\pipe\') | ForEach-Object { $_ -replace '^.*\\pipe\\', '' } | Where-Object { $_ -like 'deskgrid-sessions-*' } | Select-Object -First 1
    if (-not $name) { return 'the pipe is not there' }
    $pipe = New-Object IO.Pipes.NamedPipeClientStream('.', $name, [IO.Pipes.PipeDirection]::Out)
    try {
        $pipe.Connect(3000)
        $line = [Text.Encoding]::UTF8.GetBytes("{`"idle_ms`":99999999,`"locked`":true,`"full_screen`":false}`n")
        foreach ($try in 1..20) { $pipe.Write($line, 0, $line.Length); $pipe.Flush(); Start-Sleep -Milliseconds 200 }
        'it was heard for four seconds'
    } catch [IO.IOException] { $true } catch [UnauthorizedAccessException] { $true } finally { $pipe.Dispose() }
}
Check 'the log says who was turned away' {
    if (-not (Select-String -Path (Join-Path $State 'worker.log') -Pattern 'turned away' -Quiet)) { 'it does not' }
}

if ($Lock) {
    Check 'a locked screen is seen' {
        & rundll32.exe 'user32.dll,LockWorkStation'
        Start-Sleep -Seconds 5
        if (-not (Sees).locked) { 'the watcher takes it for unlocked' }
    }
} else { Skip 'a locked screen is seen' 'say -Lock' }

Check 'a container can be had, and held what the worker tried' {
    $said = Select-String -Path (Join-Path $State 'worker.log') -Pattern 'how tasks are kept apart from the owner' | Select-Object -Last 1
    if (-not $said) { return 'the log does not say how tasks are confined' }
    if ($said.Line -notmatch 'most=namespace') { "$($said.Line): the worker's log has the reason" }
}

# ---- tasks ----------------------------------------------------------------------------------------------------------------------------------
if ($Client) {
    Check 'a task runs' {
        & $Client submit --wait --needs $Needs '--' cmd /c "exit 0" | Out-Null
        if ($LASTEXITCODE) { "deskgrid ended with ${LASTEXITCODE}: is this PC free?" }
    }
    Check 'a task has no privileges and no rank above that of a user' {
        & $Client submit --wait --needs $Needs '--' whoami /all | Out-Null
        $said = (& $Client job cat last stdout | Out-String)
        if (-not $said.Trim()) { return 'whoami said nothing' }
        if ($said -match 'SeImpersonatePrivilege|SeAssignPrimaryTokenPrivilege') { return 'it may act as others' }
        if ($said -notmatch 'S-1-16-8192|S-1-16-4096') { 'its rank is not medium' }
    }
    Check 'a task in a container reads nothing of the worker, and writes to its own directory' {
        $key = Join-Path $State 'worker\identity\link.toml'
        & $Client submit --wait --needs $Needs --confinement namespace '--' cmd /d /c "echo mine> own&& type own&& type $key" | Out-Null
        $said = (& $Client job cat last stdout | Out-String)
        if ($said -notmatch 'mine') { return 'it did not run, or could not write: does deskgrid host info say namespace?' }
        if ($said -match 'master') { 'it read the identity' }
    }
    Check 'PowerShell runs in a container' {
        & $Client submit --wait --needs $Needs --confinement namespace '--' powershell '-NoProfile' '-Command' 'exit 0' | Out-Null
        if ($LASTEXITCODE) { "deskgrid ended with ${LASTEXITCODE}: what the next line says shows nothing" }
    }
    Check 'a task in a container has no network without leave' {
        $connect = "try { (New-Object Net.Sockets.TcpClient).Connect('1.1.1.1', 443); 'reached' } catch { 'kept' }"
        & $Client submit --wait --needs $Needs --confinement namespace '--' powershell '-NoProfile' '-Command' $connect | Out-Null
        $said = (& $Client job cat last stdout | Out-String)
        if ($said -notmatch 'kept') { "it said: $said" }
    }
    Check 'a task that takes more memory than it may fails' {
        $greedy = '$keep = @(); foreach ($i in 1..64) { $keep += ,(New-Object byte[] 16MB) }; exit 0'
        & $Client submit --wait --needs "$Needs,mem=128M" '--' powershell '-NoProfile' '-Command' $greedy | Out-Null
        if (-not $LASTEXITCODE) { 'it took a gigabyte' }
    }
    Check 'nothing of a task is left behind' {
        & $Client submit --wait --needs $Needs '--' cmd /c "start /b ping -n 600 127.0.0.1" | Out-Null
        Start-Sleep -Seconds 2
        $left = @(Get-CimInstance Win32_Process -Filter "Name='PING.EXE'" | Where-Object { $_.CommandLine -like '*-n 600*' })
        if ($left) { "process $($left[0].ProcessId)" }
    }
} else { Skip 'limits of a job hold, and nothing of a task is left' 'name a deskgrid.exe with -Client' }

# ---- the installer --------------------------------------------------------------------------------------------------------------------------
function Identity { (Get-ChildItem (Join-Path $State 'worker\identity') -Recurse -File | Get-FileHash | ForEach-Object { $_.Hash }) -join ' ' }
if ($Upgrade) {
    Check 'an upgrade in place needs no restart of the PC, and keeps the identity' {
        $before = Identity
        $done = Start-Process msiexec.exe -ArgumentList '/i', "`"$Upgrade`"", '/qn', '/norestart' -Wait -PassThru
        if ($done.ExitCode -ne 0) { return "msiexec ended with $($done.ExitCode) (3010: it wants a restart)" }
        if ((Identity) -ne $before) { return 'the PC has another identity' }
        if (-not (Within 60 { (Get-Service -Name $Service).Status -eq 'Running' })) { 'the service does not run' }
    }
    Check 'after it each session that is logged on has a watcher again' {
        $mine = (Get-Process -Id $PID).SessionId
        if (-not (Within 30 { (Watchers | ForEach-Object { $_.SessionId }) -contains $mine })) { "session $mine has none" }
    }
} else { Skip 'an upgrade in place' 'name a newer package with -Upgrade' }

if ($Remove) {
    $product = Get-ChildItem 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall' | Where-Object { $_.GetValue('DisplayName') -eq "$Service worker" } | Select-Object -First 1
    Check 'the worker can be removed' {
        if ($product) {
            $done = Start-Process msiexec.exe -ArgumentList '/x', $product.PSChildName, '/qn', '/norestart' -Wait -PassThru
            if ($done.ExitCode -ne 0) { "msiexec ended with $($done.ExitCode) (3010: it wants a restart)" }
        } else {
            # A program cannot remove itself: a copy does.
            $copy = Join-Path ([IO.Path]::GetTempPath()) 'deskgrid-remove.exe'
            Copy-Item (Join-Path $Programs 'deskgrid.exe') $copy
            & $copy worker uninstall --service $Service --yes | Out-Null
            $code = $LASTEXITCODE
            Remove-Item $copy
            if ($code) { "uninstall ended with $code" }
        }
    }
    Check 'no service is left' { if (Get-Service -Name $Service -ErrorAction SilentlyContinue) { 'it is there' } }
    Check 'no file is left' { $left = $Programs, $State | Where-Object { Test-Path $_ }; if ($left) { $left -join ', ' } }
    Check 'no watcher is left, and none starts at logon' {
        if (-not (Within 15 { -not (Watchers) })) { return 'one runs' }
        if ((Get-Item $Run).GetValueNames() -contains $Entry) { 'the entry is there' }
    }
    Check 'nothing is left in the registry' {
        $left = foreach ($path in 'HKLM:\SYSTEM\CurrentControlSet\Services', 'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion') { Traces $path }
        if ($left) { "$(@($left)[0].Name)" }
    }
} else { Skip 'a removal leaves nothing' 'say -Remove' }

Write-Output ''
if ($script:Failed) { Write-Output "$script:Failed lines failed. Please send them with $State\worker.log." } else { Write-Output 'All that was tried held.' }
exit $script:Failed
