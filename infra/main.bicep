// Everything that oneeffect runs on, in one resource group. Where the processes run
// is the target: Container Apps (they are deployed here), or AKS (the cluster is
// made here, and infra/k8s/overlays/azure is applied to it).
targetScope = 'subscription'

@description('Name of this deployment; part of every name.')
@minLength(1)
@maxLength(32)
param environmentName string

@description('Region of everything. The store has one write region, and must not have two: a create would be no lock.')
param location string

@description('Where the processes run.')
@allowed(['containerapps', 'aks'])
param target string = 'containerapps'

@description('Service Bus and Cosmos DB are reached by private endpoints only. Takes Service Bus Premium.')
param privateNetwork bool = false

@description('serverless bills each request; autoscale bills the peak of each hour, and has no limit on a container.')
@allowed(['serverless', 'autoscale'])
param cosmosCapacity string = 'serverless'

@description('Highest throughput of each container under autoscale, in request units a second.')
@minValue(1000)
param cosmosMaxThroughput int = 4000

@description('Object id of whoever operates it: may read the store and see the queues. Empty for nobody.')
param operatorPrincipalId string = ''

@description('Whether the operator can run taskctl evidence run here: it has a topic and a database of its own.')
param evidence bool = false

@description('Issuer of the bearer tokens that the orchestrator takes, exactly as their claim iss has it.')
param oidcIssuer string

@description('Audience that those tokens must be for.')
param oidcAudience string

@description('Client id at the issuer by which browsers sign in to the page. Empty: they do not.')
param oidcClient string = ''

@description('Secret of that client, if it has one.')
@secure()
param oidcClientSecret string = ''

@description('Scopes that a browser\'s token is asked for, such as api://APP/.default. Needed with a client.')
param oidcScope string = ''

@description('Where browsers find the page. Empty: at the address that Container Apps gives the orchestrator.')
param pageUrl string = ''

@description('Base URL of the CRM that handlers.yaml calls.')
param crmUrl string

@description('Base URL of the print shop that handlers.yaml calls.')
param printUrl string

@description('Name of the source whose webhooks the projector hears. Empty for none.')
param webhookSource string = ''

@description('What that source signs with.')
@secure()
param webhookSecret string = ''

@description('Who is told of alerts. Empty for nobody.')
param alertEmail string = ''

@description('Image of the worker. Empty until it has been built: a placeholder runs then.')
param workerImage string = ''

@description('Image of the orchestrator. Empty until it has been built.')
param orchestratorImage string = ''

@description('Image of the projector. Empty until it has been built.')
param projectorImage string = ''

var abbreviations = loadJsonContent('abbreviations.json')
var token = toLower(uniqueString(subscription().id, environmentName, location))
var tags = { 'azd-env-name': environmentName }

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {
  name: '${abbreviations.resourceGroup}${environmentName}'
  location: location
  tags: tags
}

module identities 'modules/identities.bicep' = {
  name: 'identities'
  scope: group
  params: {
    prefix: '${abbreviations.managedIdentity}${token}'
    location: location
    tags: tags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  name: 'monitoring'
  scope: group
  params: {
    workspaceName: '${abbreviations.logAnalyticsWorkspace}${token}'
    componentName: '${abbreviations.insightsComponent}${token}'
    location: location
    tags: tags
  }
}

module network 'modules/network.bicep' = if (privateNetwork) {
  name: 'network'
  scope: group
  params: {
    name: '${abbreviations.virtualNetwork}${token}'
    location: location
    tags: tags
  }
}

module servicebus 'modules/servicebus.bicep' = {
  name: 'servicebus'
  scope: group
  params: {
    name: '${abbreviations.serviceBusNamespace}${token}'
    location: location
    tags: tags
    skuName: privateNetwork ? 'Premium' : 'Standard'
    publicNetworkAccess: privateNetwork ? 'Disabled' : 'Enabled'
    workerPrincipalId: identities.outputs.workerPrincipalId
    orchestratorPrincipalId: identities.outputs.orchestratorPrincipalId
    projectorPrincipalId: identities.outputs.projectorPrincipalId
    scalerPrincipalId: identities.outputs.scalerPrincipalId
    workspaceId: monitoring.outputs.workspaceId
  }
}

module cosmos 'modules/cosmos.bicep' = {
  name: 'cosmos'
  scope: group
  params: {
    name: '${abbreviations.cosmosAccount}${token}'
    location: location
    tags: tags
    capacity: cosmosCapacity
    maxThroughput: cosmosMaxThroughput
    publicNetworkAccess: privateNetwork ? 'Disabled' : 'Enabled'
    workerPrincipalId: identities.outputs.workerPrincipalId
    orchestratorPrincipalId: identities.outputs.orchestratorPrincipalId
    projectorPrincipalId: identities.outputs.projectorPrincipalId
    operatorPrincipalId: operatorPrincipalId
    workspaceId: monitoring.outputs.workspaceId
  }
}

module evidenceProbes 'modules/evidence.bicep' = if (evidence && !empty(operatorPrincipalId)) {
  name: 'evidence'
  scope: group
  params: {
    namespaceName: servicebus.outputs.namespaceName
    accountName: cosmos.outputs.accountName
    capacity: cosmosCapacity
    maxThroughput: cosmosMaxThroughput
    operatorPrincipalId: operatorPrincipalId
  }
}

module endpoints 'modules/endpoints.bicep' = if (privateNetwork) {
  name: 'endpoints'
  scope: group
  params: {
    prefix: '${abbreviations.privateEndpoint}${token}'
    location: location
    tags: tags
    networkId: privateNetwork ? network!.outputs.networkId : ''
    subnetId: privateNetwork ? network!.outputs.endpointsSubnetId : ''
    namespaceId: servicebus.outputs.namespaceId
    accountId: cosmos.outputs.accountId
  }
}

module registry 'modules/registry.bicep' = {
  name: 'registry'
  scope: group
  params: {
    name: '${abbreviations.containerRegistry}${token}'
    location: location
    tags: tags
    workerPrincipalId: identities.outputs.workerPrincipalId
    orchestratorPrincipalId: identities.outputs.orchestratorPrincipalId
    projectorPrincipalId: identities.outputs.projectorPrincipalId
  }
}

module containerapps 'modules/containerapps.bicep' = if (target == 'containerapps') {
  name: 'containerapps'
  scope: group
  params: {
    environmentName: '${abbreviations.containerAppsEnvironment}${token}'
    appPrefix: abbreviations.containerApp
    location: location
    tags: tags
    subnetId: privateNetwork ? network!.outputs.appsSubnetId : ''
    workspaceId: monitoring.outputs.workspaceId
    insightsConnectionString: monitoring.outputs.connectionString
    registryServer: registry.outputs.loginServer
    workerIdentityId: identities.outputs.workerId
    workerClientId: identities.outputs.workerClientId
    orchestratorIdentityId: identities.outputs.orchestratorId
    orchestratorClientId: identities.outputs.orchestratorClientId
    projectorIdentityId: identities.outputs.projectorId
    projectorClientId: identities.outputs.projectorClientId
    scalerIdentityId: identities.outputs.scalerId
    serviceBusName: servicebus.outputs.namespaceName
    serviceBusHost: servicebus.outputs.host
    cosmosEndpoint: cosmos.outputs.endpoint
    oidcIssuer: oidcIssuer
    oidcAudience: oidcAudience
    oidcClient: oidcClient
    oidcClientSecret: oidcClientSecret
    oidcScope: oidcScope
    pageUrl: pageUrl
    crmUrl: crmUrl
    printUrl: printUrl
    webhookSource: webhookSource
    webhookSecret: webhookSecret
    workerImage: workerImage
    orchestratorImage: orchestratorImage
    projectorImage: projectorImage
  }
}

module aks 'modules/aks.bicep' = if (target == 'aks') {
  name: 'aks'
  scope: group
  params: {
    name: '${abbreviations.kubernetesCluster}${token}'
    location: location
    tags: tags
    subnetId: privateNetwork ? network!.outputs.clusterSubnetId : ''
    workspaceId: monitoring.outputs.workspaceId
    registryName: registry.outputs.name
    workerIdentityName: identities.outputs.workerName
    orchestratorIdentityName: identities.outputs.orchestratorName
    projectorIdentityName: identities.outputs.projectorName
    scalerIdentityName: identities.outputs.scalerName
  }
}

module alerts 'modules/alerts.bicep' = {
  name: 'alerts'
  scope: group
  params: {
    location: location
    tags: tags
    actionGroupName: '${abbreviations.insightsActionGroup}${token}'
    alertEmail: alertEmail
    workspaceId: monitoring.outputs.workspaceId
    namespaceId: servicebus.outputs.namespaceId
    accountId: cosmos.outputs.accountId
  }
}

module workbook 'modules/workbook.bicep' = {
  name: 'workbook'
  scope: group
  params: {
    location: location
    tags: tags
    workspaceId: monitoring.outputs.workspaceId
  }
}

output AZURE_RESOURCE_GROUP string = group.name
output AZURE_CONTAINER_REGISTRY_ENDPOINT string = registry.outputs.loginServer
output AZURE_AKS_CLUSTER_NAME string = target == 'aks' ? aks!.outputs.clusterName : ''
output ONEEFFECT_API_URL string = target == 'containerapps' ? containerapps!.outputs.apiUrl : ''
output ONEEFFECT_WEBHOOKS_URL string = target == 'containerapps' ? containerapps!.outputs.webhooksUrl : ''

// What infra/k8s/overlays/azure is filled with: see its README.
output ONEEFFECT_SERVICEBUS_NAME string = servicebus.outputs.namespaceName
output ONEEFFECT_SERVICEBUS_HOST string = servicebus.outputs.host
output ONEEFFECT_COSMOS_ENDPOINT string = cosmos.outputs.endpoint
output ONEEFFECT_WORKER_CLIENT_ID string = identities.outputs.workerClientId
output ONEEFFECT_ORCHESTRATOR_CLIENT_ID string = identities.outputs.orchestratorClientId
output ONEEFFECT_PROJECTOR_CLIENT_ID string = identities.outputs.projectorClientId
output ONEEFFECT_SCALER_CLIENT_ID string = identities.outputs.scalerClientId
