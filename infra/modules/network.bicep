// A network for those who reach broker and store by private endpoints only.
param name string
param location string
param tags object

resource network 'Microsoft.Network/virtualNetworks@2025-01-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: ['10.40.0.0/16'] }
    subnets: [
      {
        name: 'endpoints'
        properties: { addressPrefix: '10.40.0.0/24' }
      }
      {
        name: 'apps'
        properties: {
          addressPrefix: '10.40.2.0/23'
          delegations: [
            { name: 'environments', properties: { serviceName: 'Microsoft.App/environments' } }
          ]
        }
      }
      {
        name: 'cluster'
        properties: { addressPrefix: '10.40.16.0/20' }
      }
    ]
  }
}

output networkId string = network.id
output endpointsSubnetId string = '${network.id}/subnets/endpoints'
output appsSubnetId string = '${network.id}/subnets/apps'
output clusterSubnetId string = '${network.id}/subnets/cluster'
